//! `tailrace bench report`: folders of results as one HTML page, and its charts as SVG and PNG files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use tailrace_cli::failure::{Failure, note, plain};
use tailrace_cli::output::{Output, print};

use super::secrets;
use crate::recorder::interval_log;
use crate::report::{Chart, Resources, Round, Section, Series, charts, html, index, read_timeline};

#[derive(Debug, Args)]
#[command(
    after_help = "A folder holds one run, a plan, or folders of runs. Two folders are compared, as before and after. \
    The page is self-contained and has no script.\n\n\
    Examples:\n  \
    tailrace bench report results --html report.html --svg plots --png plots\n  \
    tailrace bench report before after"
)]
pub(super) struct ReportArguments {
    /// Folders with results
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// Write the page to this file
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    html: PathBuf,
    /// Also write the charts into this folder, with an index.html
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Also write the charts into this folder as PNG pictures, with an index.html
    #[arg(long, value_name = "DIR")]
    png: Option<PathBuf>,
}

pub(super) fn run(arguments: &ReportArguments) -> Result<ExitCode, Failure> {
    let sections = read(&arguments.folders)?;
    if sections.is_empty() {
        return Err("no result.json was found in these folders, nor in the folders in them".into());
    }
    write(&arguments.html, &html(&sections))?;
    let charts: Vec<Chart> = sections.iter().flat_map(charts).collect();
    draw(arguments, &charts)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of a run's or plan's folder into that folder.
pub(super) fn leave_page(folder: &Path, output: Output) -> Result<(), Failure> {
    let sections = read(&[folder.to_owned()])?;
    if sections.is_empty() {
        return Ok(());
    }
    let page = folder.join("report.html");
    write(&page, &html(&sections))?;
    let line = format!("to look at: {}", page.display());
    match output {
        Output::Text => print(&format!("{line}\n"))?,
        Output::Json => note(&line),
    }
    Ok(())
}

/// Writes the pictures, and an index in each folder.
fn draw(arguments: &ReportArguments, charts: &[Chart]) -> Result<(), Failure> {
    let mut pictures: Vec<(&Path, String, &Chart)> = Vec::new();
    for (number, chart) in charts.iter().enumerate() {
        if let Some(folder) = &arguments.svg {
            make(folder)?;
            let name = format!("chart-{}.svg", number + 1);
            write(&folder.join(&name), &chart.svg())?;
            pictures.push((folder, name, chart));
        }
        if let Some(folder) = &arguments.png {
            make(folder)?;
            let name = format!("chart-{}.png", number + 1);
            chart.write_png(&folder.join(&name))?;
            pictures.push((folder, name, chart));
        }
    }
    for folder in [&arguments.svg, &arguments.png].into_iter().flatten() {
        let own: Vec<(String, &Chart)> = pictures
            .iter()
            .filter(|(of, ..)| *of == folder.as_path())
            .map(|(_, name, chart)| (name.clone(), *chart))
            .collect();
        if !own.is_empty() {
            write(&folder.join("index.html"), &index(&own))?;
        }
    }
    Ok(())
}

/// Reads the folders. Two of them are compared.
fn read(folders: &[PathBuf]) -> Result<Vec<Section>, Failure> {
    let mut sections = Vec::new();
    if let [before, after] = folders {
        compared(before, after, &mut sections)?;
    } else {
        for folder in folders {
            shown(folder, &mut sections)?;
        }
    }
    sections.retain(|section| !section.series.is_empty());
    Ok(sections)
}

fn shown(folder: &Path, sections: &mut Vec<Section>) -> Result<(), Failure> {
    if is_plan(folder) { plan(folder, sections) } else { runs(folder, sections) }
}

fn is_plan(folder: &Path) -> bool {
    folder.join("plan.toml").exists()
}

/// Before and after in the same charts: for two plans the runs that both have, for other folders all their
/// runs.
fn compared(before: &Path, after: &Path, sections: &mut Vec<Section>) -> Result<(), Failure> {
    let names = names(before, after);
    if is_plan(before) && is_plan(after) {
        return compared_plans(before, after, &names, sections);
    }
    if is_plan(before) || is_plan(after) {
        shown(before, sections)?;
        return shown(after, sections);
    }
    let mut series = Vec::new();
    for (folder, name) in [before, after].into_iter().zip(&names) {
        let rounds = all_runs(folder)?;
        if rounds.is_empty() {
            return shown(before, sections).and_then(|()| shown(after, sections));
        }
        series.push(Series { label: name.clone(), rounds });
    }
    let title = names.join(" and ");
    sections.push(Section { title, series, plan: None, compared: true });
    Ok(())
}

/// Names that distinguish two folders.
fn names(before: &Path, after: &Path) -> [String; 2] {
    let names = [name(before), name(after)];
    if names[0] != names[1] {
        return names;
    }
    // The parts from where the paths differ.
    let alike = before.components().zip(after.components()).take_while(|(one, other)| one == other).count();
    [before, after].map(|path| path.components().skip(alike).collect::<PathBuf>().display().to_string())
}

fn compared_plans(
    before: &Path,
    after: &Path,
    names: &[String; 2],
    sections: &mut Vec<Section>,
) -> Result<(), Failure> {
    let (mut of_before, mut of_after) = (Vec::new(), Vec::new());
    plan(before, &mut of_before)?;
    plan(after, &mut of_after)?;
    for first in of_before {
        let Some(second) = of_after.iter().find(|section| section.title == first.title) else {
            sections.push(first);
            continue;
        };
        for one in first.series {
            let Some(other) = second.series.iter().find(|series| series.label == one.label) else { continue };
            let title = format!("{}, {}", first.title, one.label);
            let series = vec![
                Series { label: names[0].clone(), ..one },
                Series { label: names[1].clone(), ..other.clone() },
            ];
            sections.push(Section { title, series, plan: first.plan.clone(), compared: true });
        }
    }
    Ok(())
}

/// The run in a folder, or all runs in its subfolders.
fn all_runs(folder: &Path) -> Result<Vec<Round>, Failure> {
    let mut rounds = Vec::new();
    for run in run_folders(folder)? {
        rounds.extend(round(&run)?);
    }
    Ok(rounds)
}

/// One section for all runs of a folder.
fn runs(folder: &Path, sections: &mut Vec<Section>) -> Result<(), Failure> {
    let mut section = Section { title: name(folder), ..Section::default() };
    for round in all_runs(folder)? {
        section.series.push(Series { label: round.name.clone(), rounds: vec![round] });
    }
    sections.push(section);
    Ok(())
}

/// A section per workload, with a series per system.
fn plan(folder: &Path, sections: &mut Vec<Section>) -> Result<(), Failure> {
    let path = folder.join("plan.toml");
    let text = fs::read_to_string(&path)
        .map_err(|error| format!("cannot read {}: {}", path.display(), plain(&error)))?;
    let text = secrets::plan(&text);
    for system in folders(folder)? {
        for workload in folders(&system)? {
            let mut series = Series { label: name(&system), ..Series::default() };
            for run in folders(&workload)? {
                series.rounds.extend(round(&run)?);
            }
            if series.rounds.is_empty() {
                continue;
            }
            let title = name(&workload);
            match sections.iter_mut().find(|section| section.title == title) {
                Some(section) => section.series.push(series),
                None => {
                    let plan = Some(text.clone());
                    sections.push(Section { title, series: vec![series], plan, ..Section::default() });
                }
            }
        }
    }
    Ok(())
}

/// The run in a folder, if there is one.
fn round(folder: &Path) -> Result<Option<Round>, Failure> {
    let (result, log) = (folder.join("result.json"), folder.join("intervals.hlog"));
    if !result.exists() || !log.exists() {
        return Ok(None);
    }
    let read = |path: &Path| {
        fs::read(path).map_err(|error| format!("cannot read {}: {}", path.display(), plain(&error)))
    };
    let text = |path: &Path| read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let mut round = Round::new(&name(folder), text(&result)?)?;
    interval_log::each(&log.display().to_string(), &read(&log)?, |interval| round.add(&interval))?;
    let timeline = folder.join("timeline.csv");
    if timeline.exists() {
        round.timeline = read_timeline(&timeline.display().to_string(), &text(&timeline)?)?;
    }
    let resources = folder.join("resources.csv");
    if resources.exists() {
        round.resources = Some(Resources::read(&resources.display().to_string(), &text(&resources)?)?);
    }
    Ok(Some(round))
}

/// The folder itself if it is that of a run, or its subfolders.
fn run_folders(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    if folder.join("result.json").exists() { Ok(vec![folder.to_owned()]) } else { folders(folder) }
}

/// The subfolders of a folder, sorted by name.
fn folders(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let wrong = |error| format!("cannot read {}: {}", folder.display(), plain(&error));
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        if path.is_dir() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn make(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder)
        .map_err(|error| format!("cannot create {}: {}", folder.display(), plain(&error)).into())
}

fn name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text)
        .map_err(|error| format!("cannot write {}: {}", path.display(), plain(&error)).into())
}
