//! `tailrace top`: shows connections and traffic, from the monitoring port of tailrace or nats-server.

mod sample;
mod screen;
mod sort;
mod terminal;

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use tailrace_cli::failure::{Failure, note};
use tailrace_cli::output::{Output, print};
use tailrace_cli::text::units::parse_duration;

use crate::client::{PageLogin, SaslArguments, TlsArguments, address, block_on};
use crate::http::{Site, get};
use crate::interrupt::{FINISH, Interrupt};
use sample::{Interval, Sample};
use sort::Sort;
use terminal::Terminal;

/// Lines of the page other than connections, including one that stays free.
const OTHER_LINES: usize = 8;

#[derive(Debug, Args)]
#[command(
    after_help = "Keys: q ends, s and S change the order, space pauses. To a pipe or file, a new page of text is \
    written for each sample; with -o json each sample is one line.\n\n\
    Examples:\n  \
    tailrace top\n  \
    tailrace top --sort pending --interval 5s\n  \
    tailrace top --once -o json | jq '.connections[] | select(.pending_bytes > 0)'\n\n\
    TO is from the server to the client, FROM the other way. Rates are those of the last interval."
)]
pub(crate) struct TopArguments {
    /// HTTP port of the server, for /varz and /connz
    #[arg(
        short,
        long,
        value_name = "HOST:PORT",
        env = "TAILRACE_NATS_MONITOR",
        default_value = "127.0.0.1:8222",
        value_parser = address::http
    )]
    monitor: String,
    /// Time between two samples
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    interval: Duration,
    /// Sort order
    #[arg(short, long, value_enum, default_value_t = Sort::Rate)]
    sort: Sort,
    /// Connections to show [default: as many as fit; to a pipe, all within --limit]
    #[arg(short = 'n', long, value_name = "N")]
    rows: Option<usize>,
    /// Most connections to ask for
    #[arg(long, value_name = "N", default_value_t = 1024)]
    limit: u32,
    /// Take two samples, one interval apart, and end
    #[arg(long)]
    once: bool,
    /// Text or JSON
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Longest wait for the server
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    timeout: Duration,
    #[command(flatten)]
    tls: TlsArguments,
    #[command(flatten)]
    sasl: SaslArguments,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text)?;
    let least = Duration::from_millis(100);
    if interval >= least { Ok(interval) } else { Err(format!("it must be at least {least:?}")) }
}

pub(crate) fn run(arguments: &TopArguments) -> Result<ExitCode, Failure> {
    block_on(async {
        let (tls, login) = (arguments.tls.load()?, arguments.sasl.load()?);
        let login = login.as_ref().map(PageLogin::new).transpose()?;
        let mut top = Top {
            arguments,
            site: Site { address: arguments.monitor.clone(), tls, login, option: "--monitor" },
            sort: arguments.sort,
        };
        // The first sample also shows whether the server answers.
        let first = top.look().await?;
        let mut interrupt = Interrupt::install(FINISH)?;
        let interactive = !arguments.once && arguments.output == Output::Text;
        let mut terminal = if interactive { Terminal::take() } else { None };
        tokio::select! {
            result = top.run(first, terminal.as_mut()) => result?,
            _ = interrupt.wait() => {}
        }
        Ok(ExitCode::SUCCESS)
    })
}

struct Top<'a> {
    arguments: &'a TopArguments,
    site: Site,
    sort: Sort,
}

impl Top<'_> {
    async fn look(&self) -> Result<Sample, Failure> {
        let timeout = self.arguments.timeout;
        let path = format!("/connz?limit={}&sort={}", self.arguments.limit, self.sort.server_key());
        let varz = get(&self.site, "/varz", timeout).await?;
        let connz = get(&self.site, &path, timeout).await?;
        Ok(Sample { at: Instant::now(), varz, connz })
    }

    async fn run(&mut self, first: Sample, mut terminal: Option<&mut Terminal>) -> Result<(), Failure> {
        let mut then = first;
        let mut paused = false;
        // Show a page at once, without rates.
        if terminal.is_some() {
            let (varz, connz) = (then.varz.clone(), then.connz.clone());
            self.show(Interval::between(&then, Sample { at: then.at, varz, connz }), true)?;
        }
        loop {
            let due = then.at + self.arguments.interval;
            if self.wait(due, terminal.as_deref_mut(), &mut paused).await {
                return Ok(());
            }
            match self.look().await {
                Ok(now) => {
                    let at = now.at;
                    let (varz, connz) = (now.varz.clone(), now.connz.clone());
                    self.show(Interval::between(&then, now), terminal.is_some())?;
                    then = Sample { at, varz, connz };
                }
                // Go on: a server that restarts comes back.
                Err(failure) if terminal.is_some() => {
                    Terminal::draw(&format!("{failure}\n"))?;
                    then.at = Instant::now();
                }
                Err(failure) if !self.arguments.once => {
                    note(&failure.to_string());
                    then.at = Instant::now();
                }
                Err(failure) => return Err(failure),
            }
            if self.arguments.once {
                return Ok(());
            }
        }
    }

    /// Waits until the next sample is due, or a key asks for the page. Returns true if a key asks to quit.
    async fn wait(&mut self, due: Instant, terminal: Option<&mut Terminal>, paused: &mut bool) -> bool {
        let Some(terminal) = terminal else {
            tokio::time::sleep_until(due.into()).await;
            return false;
        };
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(due.into()), if !*paused => return false,
                key = terminal.key() => match key {
                    b'q' | b'Q' => return true,
                    b's' => self.sort = self.sort.step(1),
                    b'S' => self.sort = self.sort.step(Sort::value_variants().len() - 1),
                    b' ' => *paused = !*paused,
                    _ => {}
                },
            }
        }
    }

    fn show(&self, mut interval: Interval, on_terminal: bool) -> Result<(), Failure> {
        self.sort.order(&mut interval.rows);
        if self.arguments.output == Output::Json {
            interval.rows.truncate(self.arguments.rows.unwrap_or(usize::MAX));
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let now_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
            return print(&format!("{}\n", screen::json(&interval, now_ms)));
        }
        if !on_terminal {
            let rows = self.arguments.rows.unwrap_or(usize::MAX);
            let end = if self.arguments.once { "" } else { "\n" };
            return print(&(screen::text(&interval, self.sort, rows, usize::MAX) + end));
        }
        let (columns, lines) = Terminal::size();
        let rows = self.arguments.rows.unwrap_or(usize::MAX).min(lines.saturating_sub(OTHER_LINES));
        Ok(Terminal::draw(&screen::text(&interval, self.sort, rows, columns))?)
    }
}
