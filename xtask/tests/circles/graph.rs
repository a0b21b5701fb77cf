//! Files, the uses between them, and the circles that these form.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use crate::source::Source;

/// The uses between the files of a crate.
pub(crate) struct Graph {
    files: Vec<PathBuf>,
    /// For each file, the files that it uses.
    uses: Vec<BTreeMap<usize, Use>>,
}

/// A use of another file: the first path that leads there.
struct Use {
    path: String,
    line: usize,
}

impl Graph {
    /// Reads the crate in `folder`.
    pub(crate) fn read(folder: &Path) -> Self {
        let source = Source::read(folder);
        let mut uses: Vec<BTreeMap<usize, Use>> = source.files.iter().map(|_| BTreeMap::new()).collect();
        for (number, module) in source.modules.iter().enumerate() {
            let imports = module.imports.iter().filter(|import| !import.re_exported);
            let imports = imports.map(|import| (&import.path, import.line));
            for (path, line) in imports.chain(module.paths.iter().map(|(path, line)| (path, *line))) {
                for file in source.files_of(number, path) {
                    if file != module.file {
                        let path = path.join("::");
                        uses[module.file].entry(file).or_insert(Use { path, line });
                    }
                }
            }
        }
        let inside = |file: &PathBuf| file.strip_prefix(folder).unwrap_or(file).to_owned();
        Self { files: source.files.iter().map(inside).collect(), uses }
    }

    /// Returns the circles: each file that reaches itself, together with the files that it reaches and that
    /// reach it.
    pub(crate) fn circles(&self) -> Vec<BTreeSet<usize>> {
        let reached: Vec<BTreeSet<usize>> =
            (0..self.files.len()).map(|file| self.reached_from(file)).collect();
        let mut circles: Vec<BTreeSet<usize>> = Vec::new();
        for file in (0..self.files.len()).filter(|file| reached[*file].contains(file)) {
            if !circles.iter().any(|circle| circle.contains(&file)) {
                let mates = reached[file].iter().copied().filter(|other| reached[*other].contains(&file));
                circles.push(mates.collect());
            }
        }
        circles
    }

    fn reached_from(&self, file: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut left = vec![file];
        while let Some(file) = left.pop() {
            left.extend(self.uses[file].keys().copied().filter(|used| reached.insert(*used)));
        }
        reached
    }

    /// Describes a circle: its number of files, and one line for each step of the shortest way around it.
    pub(crate) fn describe(&self, circle: &BTreeSet<usize>) -> String {
        let ways = circle.iter().filter_map(|file| self.way_around(*file, circle));
        let way = ways.min_by_key(Vec::len).unwrap_or_default();
        let mut lines = format!("a circle of {} files, its shortest way around:\n", circle.len());
        for (number, file) in way.iter().enumerate() {
            let used = way[(number + 1) % way.len()];
            let Use { path, line } = &self.uses[*file][&used];
            let (file, used) = (self.files[*file].display(), self.files[used].display());
            lines += &format!("  {file}:{line} uses {path} of {used}\n");
        }
        lines
    }

    /// The shortest way from a file back to itself.
    fn way_around(&self, start: usize, circle: &BTreeSet<usize>) -> Option<Vec<usize>> {
        let mut from: BTreeMap<usize, usize> = BTreeMap::new();
        let mut left = VecDeque::from([start]);
        while let Some(file) = left.pop_front() {
            if self.uses[file].contains_key(&start) {
                let mut way = vec![file];
                while way.last() != Some(&start) {
                    way.extend(way.last().and_then(|last| from.get(last)));
                }
                way.reverse();
                return Some(way);
            }
            for used in self.uses[file].keys().filter(|used| circle.contains(used)) {
                if *used != start && !from.contains_key(used) {
                    from.insert(*used, file);
                    left.push_back(*used);
                }
            }
        }
        None
    }
}
