//! `tailrace bench proxy`: trouble on the way to a server.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use tailrace_cli::failure::{Failure, plain};
use tailrace_cli::output::print;
use tailrace_cli::text::units::{bytes_with_unit, duration_with_unit, parse_duration};

use super::interrupt::stop_on_interrupt;
use super::secrets;
use crate::proxy::{Proxy, ProxyOptions, Trouble, random_stalls, random_times};

/// Random events are planned this far ahead.
const HORIZON: Duration = Duration::from_secs(7 * 86_400);

#[derive(Debug, Args)]
#[command(after_help = "Trouble is a list of KEY=VALUE:\n  \
    latency=5ms          added to everything\n  \
    jitter=2ms           up to this much more, at random\n  \
    bandwidth=10MiB      this much per second\n  \
    stall=10s:2s         from second 10 on nothing passes for 2 s, then everything; may be repeated\n  \
    stalls=30s:500ms     stalls of 500 ms at random, 30 s apart on average\n\
\nNumbers need a unit: ms, s, m, h; B, KiB, MiB, GiB. A stall in one direction is a one-way cut. Times count from the line that starts \
    with `ready`. The same seed makes the same trouble.\n\n\
    Example:\n  \
    tailrace bench proxy --to 127.0.0.1:4222 --both latency=1ms --to-client stall=10s:2s")]
pub(super) struct ProxyArguments {
    /// Address to forward to
    #[arg(long, value_name = "HOST:PORT")]
    to: String,
    /// Address to listen on; port 0 picks a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Trouble in both directions
    #[arg(long, value_name = "KEY=VALUE,...")]
    both: Option<String>,
    /// Trouble from client to server, in addition to --both
    #[arg(long, value_name = "KEY=VALUE,...")]
    to_server: Option<String>,
    /// Trouble from server to client, in addition to --both
    #[arg(long, value_name = "KEY=VALUE,...")]
    to_client: Option<String>,
    /// Reset all connections at this time; may be repeated
    #[arg(long, value_name = "TIME", value_parser = duration_with_unit)]
    reset: Vec<Duration>,
    /// Reset all connections at random times, this far apart on average
    #[arg(long, value_name = "TIME", value_parser = duration_with_unit)]
    resets: Option<Duration>,
    /// Seed of all randomness
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Stop after this time [default: at Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
}

impl ProxyArguments {
    pub(super) fn options(&self) -> Result<ProxyOptions, Failure> {
        let direction = |own: &Option<String>, number: u64| {
            let mut trouble = Trouble::default();
            for text in self.both.iter().chain(own) {
                add(&mut trouble, text, self.seed.wrapping_add(number))?;
            }
            Ok::<_, Failure>(trouble)
        };
        let mut resets = self.reset.clone();
        if let Some(gap) = self.resets {
            resets.extend(random_times(self.seed, positive("resets", gap)?, HORIZON));
        }
        resets.sort_unstable();
        Ok(ProxyOptions {
            listen: self.listen,
            upstream: self.to.clone(),
            to_server: direction(&self.to_server, 1)?,
            to_client: direction(&self.to_client, 2)?,
            resets,
            seed: self.seed,
        })
    }
}

impl ProxyArguments {
    /// The first event that is planned for after the end of a run of this length, if any. Random events do
    /// not count.
    pub(super) fn beyond(&self, length: Duration) -> Result<Option<String>, Failure> {
        if let Some(reset) = self.reset.iter().find(|reset| **reset >= length) {
            return Ok(Some(format!("reset={reset:?}")));
        }
        let texts = self.both.iter().chain(&self.to_server).chain(&self.to_client);
        for part in texts.flat_map(|text| text.split(',')) {
            if let Some(stall) = part.strip_prefix("stall=")
                && pair(stall)?.0 >= length
            {
                return Ok(Some(part.to_owned()));
            }
        }
        Ok(None)
    }
}

pub(super) fn run(arguments: &ProxyArguments) -> Result<ExitCode, Failure> {
    let options = arguments.options()?;
    let begun = Instant::now();
    let proxy = Proxy::start(options)
        .map_err(|error| format!("cannot listen on {}: {}", arguments.listen, plain(&error)))?;
    print(&format!("ready proxy={} to={}\n", proxy.address(), secrets::text(&arguments.to)))?;
    let stop = stop_on_interrupt();
    while !stop.load(Ordering::Relaxed)
        && arguments.duration.is_none_or(|duration| begun.elapsed() < duration)
    {
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(ExitCode::SUCCESS)
}

/// Adds the trouble in `text`.
fn add(trouble: &mut Trouble, text: &str, seed: u64) -> Result<(), Failure> {
    for part in text.split(',') {
        let (key, value) = part
            .split_once('=')
            .ok_or_else(|| format!("'{part}' is not a kind of trouble: expected KEY=VALUE"))?;
        match key {
            "latency" => trouble.latency += duration_with_unit(value)?,
            "jitter" => trouble.jitter += duration_with_unit(value)?,
            "bandwidth" => trouble.bandwidth = bytes_with_unit(value)?,
            "stall" => {
                let (at, length) = pair(value)?;
                trouble.stalls.push(at..at + length);
            }
            "stalls" => {
                let (gap, length) = pair(value)?;
                trouble.stalls.extend(random_stalls(seed, positive("stalls", gap)?, length, HORIZON));
            }
            _ => {
                let known = "latency, jitter, bandwidth, stall or stalls";
                return Err(format!("'{key}' is not a kind of trouble: expected {known}").into());
            }
        }
    }
    Ok(())
}

fn pair(value: &str) -> Result<(Duration, Duration), Failure> {
    let (first, second) = value
        .split_once(':')
        .ok_or_else(|| format!("'{value}' is not a pair of times: expected, for example, 10s:2s"))?;
    Ok((duration_with_unit(first)?, duration_with_unit(second)?))
}

fn positive(what: &str, duration: Duration) -> Result<Duration, Failure> {
    if duration.is_zero() {
        return Err(format!("{what}: the mean distance must be longer than 0").into());
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_read() {
        let mut trouble = Trouble::default();
        add(&mut trouble, "latency=5ms,jitter=1ms,bandwidth=1MiB,stall=10s:2s,stall=20s:1s", 1).unwrap();
        let seconds = Duration::from_secs;
        assert_eq!((trouble.latency, trouble.bandwidth), (Duration::from_millis(5), 1 << 20));
        assert_eq!(trouble.stalls, [seconds(10)..seconds(12), seconds(20)..seconds(21)]);
        for wrong in ["", "latency", "latency=x", "rain=1s", "stall=5s", "stalls=0s:1s"] {
            add(&mut Trouble::default(), wrong, 1).unwrap_err();
        }
        for (bare, words) in [
            ("latency=50", "'50' has no unit: expected, for example, 50ms or 50s"),
            ("jitter=0.5", "'0.5' has no unit"),
            ("bandwidth=10", "'10' has no unit: expected, for example, 10MiB, 10KiB or 10B"),
            ("stall=10:2s", "'10' has no unit"),
            ("stalls=30s:2", "'2' has no unit"),
        ] {
            let error = add(&mut Trouble::default(), bare, 1).unwrap_err().to_string();
            assert!(error.starts_with(words), "{error}");
        }
    }
}
