//! Fetches `/clusterz` from each node.

use std::time::Duration;

use serde_json::Value;
use tailrace_cli::failure::Failure;

use crate::http::{Site, get};

const PAGE: &str = "/clusterz";

/// The nodes' pages.
pub(super) struct Pages {
    /// The page of the node that was asked first.
    pub(super) first: Value,
    /// For each node: its page, or why there is none.
    pub(super) all: Vec<(i64, Result<Value, String>)>,
}

/// Asks one node, and then all the others that it lists.
pub(super) async fn ask(site: &Site, timeout: Duration) -> Result<Pages, Failure> {
    let first: Value = get(site, PAGE, timeout).await?;
    let own = first["node"].as_i64().unwrap_or(-1);
    let mut all = vec![(own, Ok(first.clone()))];
    for node in first["nodes"].as_array().into_iter().flatten() {
        let Some(id) = node["id"].as_i64().filter(|id| *id != own) else { continue };
        let page = match node["http"].as_str() {
            Some(address) => page(site.at(address), timeout).await,
            None => Err("it has no HTTP port".to_owned()),
        };
        all.push((id, page));
    }
    all.sort_by_key(|(id, _)| *id);
    Ok(Pages { first, all })
}

async fn page(site: Site, timeout: Duration) -> Result<Value, String> {
    get(&site, PAGE, timeout).await.map_err(|error| error.to_string())
}

/// The elements of a list in a page.
pub(super) fn list<'a>(page: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    page[name].as_array().into_iter().flatten()
}

/// A value as a table shows it.
pub(super) fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(cell).collect::<Vec<_>>().join(","),
        value => value.to_string(),
    }
}
