pub(crate) fn run(_: &[String]) -> Result<(), String> { Err("not yet".into()) }
