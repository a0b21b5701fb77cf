//! Decides whether to trust a run: was the generator on time?

use super::options::Mode;
use crate::recorder::{Distribution, Outcomes, Recorder, confidence};
use crate::verdict::{DECISIVE, QUANTILES, Verdict};

/// Lateness that is always acceptable, in nanoseconds: 1 ms.
pub(crate) const LATENESS_NS_ALLOWED: u64 = 1_000_000;

/// How a run ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Ending {
    /// Messages that were not sent although the system had room.
    pub(super) neglected: u64,
    /// The bound on messages, if it was reached.
    pub(super) messages_all_sent: Option<u64>,
    /// The run was stopped during its warm-up.
    pub(super) stopped_in_warm_up: bool,
    /// How far it came, if it was stopped or a part of it was lost.
    pub(super) interrupted: Option<String>,
}

/// Judges a run by its lateness.
///
/// Lateness is a part of the latency only in the open loop; other loads count from the sending.
pub(super) fn judge(mode: Mode, total: &Recorder, ending: Ending) -> Verdict {
    let mut verdict = Verdict::default();
    let receipt = total.receipt.together();
    let acknowledgement = total.acknowledgement.together();
    for latency in [&receipt, &acknowledgement]
        .into_iter()
        .filter(|latency| latency.count() > 0 && mode == Mode::OpenLoop)
    {
        judge_latency(&total.lateness, latency, &mut verdict);
    }
    let neglected = ending.neglected;
    if neglected > 0 {
        verdict.invalid.push(format!(
            "the generator could not keep up: {neglected} messages were never sent though the system had room"
        ));
    }
    if total.counts.due == 0 {
        verdict.nothing_measured = Some(match ending.messages_all_sent {
            _ if ending.stopped_in_warm_up => "the run was stopped within its warm-up".to_owned(),
            Some(messages) => format!("the {messages} messages were sent within the warm-up"),
            None => "nothing was due in the measured time".to_owned(),
        });
    }
    verdict.interrupted = ending.interrupted;
    if total.held.count() > 0 {
        verdict.remarks.push(format!(
            "{} messages waited because too many were in flight or the client had no room; they count from when they were due",
            total.held.count()
        ));
    }
    verdict.remarks.extend(failed(total));
    verdict.doubtful_quantiles.sort_by(f64::total_cmp);
    verdict.doubtful_quantiles.dedup();
    verdict
}

/// Percentiles at which half of the latency or more may be the generator's own lateness, among those that
/// this many messages can tell.
pub(crate) fn doubtful_quantiles(lateness: &Distribution, latency: &Distribution) -> Vec<f64> {
    let told = QUANTILES.into_iter().filter(|quantile| confidence::is_told(latency.count(), *quantile));
    told.filter(|quantile| is_mostly_lateness(lateness, latency, *quantile)).collect()
}

fn is_mostly_lateness(lateness: &Distribution, latency: &Distribution, quantile: f64) -> bool {
    lateness.at_quantile_ns(quantile) >= latency.at_quantile_ns(quantile).div_ceil(2)
}

fn judge_latency(lateness: &Distribution, latency: &Distribution, verdict: &mut Verdict) {
    verdict.doubtful_quantiles.extend(doubtful_quantiles(lateness, latency));
    // The generator's lateness is a fact about these messages, however few they are.
    for quantile in DECISIVE {
        let (late, whole) = (lateness.at_quantile_ns(quantile), latency.at_quantile_ns(quantile));
        if late > LATENESS_NS_ALLOWED && is_mostly_lateness(lateness, latency, quantile) {
            verdict.invalid.push(format!(
                "the generator was late: at p{} its own lateness is {:.3} ms of {:.3} ms",
                quantile * 100.0,
                late as f64 / 1e6,
                whole as f64 / 1e6,
            ));
        }
    }
}

/// Percentiles of successes say nothing about failed messages.
fn failed(total: &Recorder) -> Option<String> {
    let of = |outcomes: &Outcomes| (outcomes.error.count(), outcomes.timeout.count());
    let (receipt, acknowledgement) = (of(&total.receipt), of(&total.acknowledgement));
    let (errors, timeouts) = (receipt.0.max(acknowledgement.0), receipt.1.max(acknowledgement.1));
    (errors + timeouts > 0).then(|| {
        format!(
            "{errors} messages failed and {timeouts} timed out: they are in distributions of their own, and in no percentile of those that \
             succeeded"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::VerdictKind;

    #[test]
    fn a_run_of_nothing_is_not_valid() {
        let reason = |ending| judge(Mode::OpenLoop, &Recorder::default(), ending).nothing_measured.unwrap();
        assert_eq!(reason(Ending::default()), "nothing was due in the measured time");
        let stopped = Ending { stopped_in_warm_up: true, ..Ending::default() };
        assert_eq!(reason(stopped), "the run was stopped within its warm-up");
        let sent = Ending { messages_all_sent: Some(7), ..Ending::default() };
        assert_eq!(reason(sent.clone()), "the 7 messages were sent within the warm-up");
        assert!(!judge(Mode::OpenLoop, &Recorder::default(), sent).is_valid());
    }

    #[test]
    fn lateness_counts_where_it_matters() {
        let mut total = Recorder::default();
        total.counts.due = 1000;
        total.acknowledgement.success.record_n(4_000_000, 990);
        total.acknowledgement.success.record_n(50_000_000, 10);
        total.lateness.record_n(10_000, 990);
        total.lateness.record_n(50_000_000, 10);
        let quiet = Ending::default();
        let verdict = judge(Mode::OpenLoop, &total, quiet.clone());
        assert!(verdict.is_valid() && verdict.remarks.is_empty(), "{verdict:?}");
        // 1,000 messages do not tell p99.9, so no doubt is expressed about it. The maximum is what was seen.
        assert_eq!(verdict.doubtful_quantiles, [1.0]);
        assert_eq!(verdict.kind(), VerdictKind::Valid);
        assert!(verdict.headline().starts_with("valid but for max: at max half"), "{}", verdict.headline());
        let mut more = Recorder::default();
        (0..5).for_each(|_| more.add(&total));
        let tail = judge(Mode::OpenLoop, &more, quiet.clone());
        assert!(tail.headline().starts_with("valid up to p99: at p99.9, max half"), "{}", tail.headline());
        total.lateness.record_n(3_000_000, 600);
        assert!(!judge(Mode::OpenLoop, &total, quiet.clone()).is_valid());
        assert!(judge(Mode::ClosedLoop, &total, quiet.clone()).is_valid());
        assert!(
            judge(Mode::OpenLoop, &total, Ending { neglected: 5, ..quiet })
                .invalid
                .iter()
                .any(|reason| reason.contains("5 messages were never sent"))
        );
    }

    #[test]
    fn a_target_that_takes_no_time_is_doubtful_and_nothing_else() {
        let mut total = Recorder::default();
        total.counts.due = 1000;
        total.acknowledgement.success.record_n(60_000, 1000);
        total.lateness.record_n(50_000, 1000);
        let verdict = judge(Mode::OpenLoop, &total, Ending::default());
        assert_eq!(verdict.kind(), VerdictKind::Doubtful);
        assert!(
            verdict.headline().starts_with("doubtful: at p50, p75, p90, p99, max half"),
            "{}",
            verdict.headline()
        );
        assert_eq!(verdict.reasons().len(), 1);
    }

    #[test]
    fn a_late_generator_is_found_with_few_messages_too() {
        let mut total = Recorder::default();
        total.counts.due = 100;
        total.acknowledgement.success.record_n(50_000_000, 100);
        total.lateness.record_n(10_000, 95);
        total.lateness.record_n(49_000_000, 5);
        let verdict = judge(Mode::OpenLoop, &total, Ending::default());
        assert!(verdict.headline().starts_with("INVALID: the generator was late: at p99"), "{verdict:?}");
        assert_eq!(verdict.doubtful_quantiles, [1.0]);
    }

    #[test]
    fn what_failed_is_told() {
        let mut total = Recorder::default();
        total.counts.due = 1000;
        total.receipt.success.record_n(4_000_000, 968);
        total.receipt.error.record_n(4_000_000, 30);
        total.receipt.timeout.record_n(4_000_000, 2);
        let verdict = judge(Mode::OpenLoop, &total, Ending::default());
        assert!(verdict.remarks[0].starts_with("30 messages failed and 2 timed out"), "{verdict:?}");
        let stopped = Ending { interrupted: Some("it was stopped".to_owned()), ..Ending::default() };
        assert_eq!(judge(Mode::OpenLoop, &total, stopped).kind(), VerdictKind::Interrupted);
    }
}
