//! `tailrace bench report`: folders of results as one HTML page, and its charts as SVG and PNG files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use tailrace_bench::recorder::interval_log;
use tailrace_bench::report::{Resources, Section, Series, charts, html};

use super::secrets;
use crate::failure::{Failure, plain};

#[derive(Debug, Args)]
#[command(
    after_help = "A folder is that of one run, of a plan, or of folders of runs. The page needs nothing else and holds no script.\n\n\
    Example: tailrace bench report results --html report.html --svg plots --png plots"
)]
pub(super) struct ReportArguments {
    /// Folders with results
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// Write the page here
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    html: PathBuf,
    /// Write the charts into this folder too
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Write the charts into this folder as PNG pictures too
    #[arg(long, value_name = "DIR")]
    png: Option<PathBuf>,
}

pub(super) fn run(arguments: &ReportArguments) -> Result<ExitCode, Failure> {
    let mut sections = Vec::new();
    for folder in &arguments.folders {
        if folder.join("plan.toml").exists() {
            plan(folder, &mut sections)?;
        } else {
            runs(folder, &mut sections)?;
        }
    }
    sections.retain(|section| !section.series.is_empty());
    if sections.is_empty() {
        return Err("no result.json was found in these folders, nor in the folders in them".into());
    }
    write(&arguments.html, &html("Latency", &sections))?;
    if let Some(folder) = &arguments.png {
        make(folder)?;
        for (number, chart) in sections.iter().flat_map(charts).enumerate() {
            chart.write_png(&folder.join(format!("chart-{}.png", number + 1)))?;
        }
    }
    if let Some(folder) = &arguments.svg {
        make(folder)?;
        for (number, chart) in sections.iter().flat_map(charts).enumerate() {
            write(&folder.join(format!("chart-{}.svg", number + 1)), &chart.svg())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// One section for all runs of a folder.
fn runs(folder: &Path, sections: &mut Vec<Section>) -> Result<(), Failure> {
    let mut section = Section { title: folder.display().to_string(), ..Section::default() };
    let own = folder.join("result.json").exists();
    for run in if own { vec![folder.to_owned()] } else { folders(folder)? } {
        let mut series = Series { label: name(&run), ..Series::default() };
        if add(&run, &mut series)? {
            section.series.push(series);
        }
    }
    sections.push(section);
    Ok(())
}

/// A section per workload, in it a series per system.
fn plan(folder: &Path, sections: &mut Vec<Section>) -> Result<(), Failure> {
    let path = folder.join("plan.toml");
    let text = fs::read_to_string(&path)
        .map_err(|error| format!("cannot read {}: {}", path.display(), plain(&error)))?;
    let text = secrets::plan(&text);
    for system in folders(folder)? {
        for workload in folders(&system)? {
            let mut series = Series { label: name(&system), ..Series::default() };
            for round in folders(&workload)? {
                add(&round, &mut series)?;
            }
            if series.rounds.is_empty() {
                continue;
            }
            let title = name(&workload);
            match sections.iter_mut().find(|section| section.title == title) {
                Some(section) => section.series.push(series),
                None => sections.push(Section { title, series: vec![series], plan: Some(text.clone()) }),
            }
        }
    }
    Ok(())
}

/// Adds a run to a series; false if there is none in the folder.
fn add(folder: &Path, series: &mut Series) -> Result<bool, Failure> {
    let (result, log) = (folder.join("result.json"), folder.join("intervals.hlog"));
    if !result.exists() || !log.exists() {
        return Ok(false);
    }
    let read = |path: &Path| {
        fs::read(path).map_err(|error| format!("cannot read {}: {}", path.display(), plain(&error)))
    };
    series.rounds.push(interval_log::read(&log.display().to_string(), &read(&log)?)?);
    series.results.push(String::from_utf8_lossy(&read(&result)?).into_owned());
    let resources = folder.join("resources.csv");
    series.resources.push(if resources.exists() {
        let text = String::from_utf8_lossy(&read(&resources)?).into_owned();
        Some(Resources::read(&resources.display().to_string(), &text)?)
    } else {
        None
    });
    Ok(true)
}

/// The folders in a folder, by name.
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
        .map_err(|error| format!("cannot make {}: {}", folder.display(), plain(&error)).into())
}

fn name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text)
        .map_err(|error| format!("cannot write {}: {}", path.display(), plain(&error)).into())
}
