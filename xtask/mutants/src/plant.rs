//! All mutants of a file in one text: each has a number, and is there only while its number is chosen.
//!
//! An expression becomes a choice between expressions, a function gets a `return` that is taken only if it
//! is chosen. Some of it does not compile: the compiler's errors tell which mutants those are, and they are
//! left out.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::find::{Form, Site};

/// The function that tells which mutant was chosen. It is added to the crate on which all others depend.
const CHOSEN: &str = "::tailrace_types::planted";

/// The text of a file with its mutants.
#[derive(Default)]
pub(crate) struct Planted {
    pub(crate) text: String,
    /// The code of each mutant in the text, with its number.
    places: Vec<(Range<usize>, usize)>,
    /// The code that a mutant may have spoilt, with the place of the site in the list.
    extents: Vec<(Range<usize>, usize)>,
}

/// Something to write between two characters of the file.
struct Insertion {
    at: usize,
    /// The order of what is written at the same place: ends from the inside to the outside, then starts from
    /// the outside to the inside.
    rank: (u8, i64, i64),
    pieces: Vec<(Option<usize>, String)>,
    /// The site that starts or ends here.
    edge: Option<(usize, bool)>,
}

/// Writes the mutants of a file, without those that are left out. The mutants of the sites have the numbers
/// from `first` on.
pub(crate) fn plant(text: &str, sites: &[Site], first: usize, left_out: &BTreeSet<usize>) -> Planted {
    let mut insertions = Vec::new();
    let mut next = first;
    for (index, site) in sites.iter().enumerate() {
        let numbered = site.changes.iter().zip(next..).map(|(change, number)| (number, change.code.as_str()));
        let kept: Vec<(usize, &str)> = numbered.filter(|(number, _)| !left_out.contains(number)).collect();
        next += site.changes.len();
        if !kept.is_empty() {
            write_site(index, site, &kept, &mut insertions);
        }
    }
    insertions.sort_by_key(|insertion| (insertion.at, insertion.rank));
    compose(text, insertions, sites.len())
}

fn compose(text: &str, insertions: Vec<Insertion>, sites: usize) -> Planted {
    let (mut planted, mut done, mut starts) = (Planted::default(), 0, vec![0; sites]);
    for Insertion { at, pieces, edge, .. } in insertions {
        planted.text.push_str(&text[done..at]);
        done = at;
        if let Some((site, true)) = edge {
            starts[site] = planted.text.len();
        }
        for (number, code) in pieces {
            let from = planted.text.len();
            planted.text.push_str(&code);
            planted.places.extend(number.map(|number| (from..planted.text.len(), number)));
        }
        if let Some((site, false)) = edge {
            planted.extents.push((starts[site]..planted.text.len(), site));
        }
    }
    planted.text.push_str(&text[done..]);
    planted
}

fn write_site(index: usize, site: &Site, kept: &[(usize, &str)], insertions: &mut Vec<Insertion>) {
    let order = i64::try_from(index).unwrap_or(i64::MAX);
    let [start, end] = [site.range.start, site.range.end].map(|at| i64::try_from(at).unwrap_or(i64::MAX));
    let mut pieces: Vec<(Option<usize>, String)> =
        kept.iter().map(|(number, code)| (Some(*number), alternative(&site.form, *number, code))).collect();
    let mut after = String::new();
    match site.form {
        Form::Choice => {
            pieces.insert(0, (None, "(".to_owned()));
            pieces.push((None, "{ ".to_owned()));
            after.push_str(" })");
        }
        Form::Guard => {
            pieces.insert(0, (None, "(".to_owned()));
            pieces.push((None, "(".to_owned()));
            after.push_str("))");
        }
        Form::Early { at } | Form::Arm { at } => {
            let rank = (1, i64::MIN, order);
            insertions.push(Insertion { at, rank, pieces: std::mem::take(&mut pieces), edge: None });
        }
    }
    let (from, to) = ((1, -end, order), (0, -start, -order));
    insertions.push(Insertion { at: site.range.start, rank: from, pieces, edge: Some((index, true)) });
    let pieces = vec![(None, after)];
    insertions.push(Insertion { at: site.range.end, rank: to, pieces, edge: Some((index, false)) });
}

fn alternative(form: &Form, number: usize, code: &str) -> String {
    match form {
        Form::Early { .. } if code == "()" => format!(" if {CHOSEN}({number}) {{ return; }}"),
        Form::Early { .. } => format!(" if {CHOSEN}({number}) {{ return {code}; }}"),
        Form::Choice => format!("if {CHOSEN}({number}) {{ {code} }} else "),
        Form::Guard if code == "true" => format!("{CHOSEN}({number}) || "),
        Form::Guard => format!("!{CHOSEN}({number}) && "),
        Form::Arm { .. } => format!(" if !{CHOSEN}({number})"),
    }
}

impl Planted {
    /// The mutants that an error of the compiler is about: those whose code it names. If there are none, the
    /// innermost site around it is to blame.
    pub(crate) fn blamed(&self, error: &Range<usize>, sites: &[Site], first: usize) -> Vec<usize> {
        let touches = |place: &Range<usize>| place.start < error.end && error.start < place.end;
        let hit: Vec<usize> =
            self.places.iter().filter(|(place, _)| touches(place)).map(|(_, number)| *number).collect();
        if !hit.is_empty() {
            return hit;
        }
        let around =
            self.extents.iter().filter(|(extent, _)| extent.start <= error.start && error.end <= extent.end);
        let Some((_, innermost)) = around.min_by_key(|(extent, _)| extent.len()) else { return Vec::new() };
        let before: usize = sites[..*innermost].iter().map(|site| site.changes.len()).sum();
        (first + before..first + before + sites[*innermost].changes.len()).collect()
    }

    /// All mutants in the text.
    pub(crate) fn numbers(&self) -> BTreeSet<usize> {
        self.places.iter().map(|(_, number)| *number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::sites;
    use crate::sources::Source;

    fn source(text: &str) -> Source {
        Source { path: String::new(), text: text.to_owned(), code: syn::parse_file(text).expect("code") }
    }

    fn planted(text: &str, left_out: &[usize]) -> String {
        let source = source(text);
        plant(text, &sites(&source), 1, &left_out.iter().copied().collect()).text.replace(CHOSEN, "is")
    }

    #[test]
    fn operators_become_choices_one_inside_the_other() {
        assert_eq!(
            planted("fn f() -> bool { a + 1 == !b }", &[1, 2]),
            "fn f() -> bool { (if is(3) { (a + 1) != (!b) } else { \
             (if is(4) { (a) - (1) } else if is(5) { (a) * (1) } else { a + 1 }) == \
             (if is(6) { b } else { !b }) }) }"
        );
    }

    #[test]
    fn a_function_returns_early_after_its_attributes() {
        assert_eq!(
            planted("fn f() -> u8 { #![allow(a)] g() }", &[]),
            "fn f() -> u8 { #![allow(a)] if is(1) { return 0; } if is(2) { return 1; } g() }"
        );
        assert_eq!(planted("fn f() { g() }", &[]), "fn f() { if is(1) { return; } g() }");
    }

    #[test]
    fn arms_go_and_guards_are_fixed() {
        assert_eq!(
            planted("fn f() { match a { 1 => b, c if d => e, _ => {} } }", &[1]),
            "fn f() { match a { 1 if !is(2) => b, c if (is(3) || !is(4) && (d)) => e, _ => {} } }"
        );
    }

    #[test]
    fn an_error_is_blamed_on_the_mutant_at_its_place() {
        let source = source("fn f() -> bool { a == b }");
        let sites = sites(&source);
        let planted = plant(&source.text, &sites, 1, &BTreeSet::new());
        let at = planted.text.find("(a) !=").expect("the mutant");
        assert_eq!(planted.blamed(&(at..at + 1), &sites, 1), [3]);
        let at = planted.text.find("a == b").expect("the code");
        assert_eq!(planted.blamed(&(at..at + 1), &sites, 1), [3]);
        let at = planted.text.rfind('}').expect("the end");
        assert_eq!(planted.blamed(&(at..at + 1), &sites, 1), [1, 2]);
        assert_eq!(planted.blamed(&(0..2), &sites, 1), [0; 0]);
        assert_eq!(planted.numbers(), [1, 2, 3].into());
    }
}
