//! Quotas of clients and of addresses on this node: which one is for a request, and what is left of it.
//!
//! The limits come with the metadata. What passed is counted here, in one bucket for each pair that
//! `identity` names. `buckets` bounds their number.
//!
//! Everything counts on this node alone. Other nodes, and the node itself, have no quotas.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tailrace_env::random;
use tailrace_identity::quota::{
    BURST_SECONDS, Bucket, Quota, QuotaAlteration, QuotaEntity, QuotaKey, Quotas, REQUEST_THROTTLE_MS_MAX,
    RateWindow, TokenBucket,
};
use tailrace_metadata::{MetadataImage, QuotaLimit};

use super::buckets::Buckets;

/// Whether an answer with records may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The answer is sent. The client is then held up for so many milliseconds, usually zero.
    Send {
        /// Milliseconds.
        throttle_ms: u32,
    },
    /// The answer is sent without its records, and they do not count.
    Withhold {
        /// How long the client is held up, in milliseconds. Never zero.
        throttle_ms: u32,
    },
}

/// The limits of all entities, as the metadata have them.
type Limits = BTreeMap<QuotaEntity, BTreeMap<QuotaKey, QuotaLimit>>;

/// The quotas of one version of the metadata.
#[derive(Default)]
struct Table {
    version: u64,
    source: Arc<Limits>,
    quotas: Arc<Quotas>,
}

impl Table {
    fn new(version: u64, source: &Arc<Limits>) -> Self {
        let mut quotas = Quotas::default();
        for (entity, limits) in source.iter() {
            let changes = limits.iter().map(|(key, limit)| (*key, Some(limit.get()))).collect();
            let alteration = QuotaAlteration { entity: entity.clone(), changes };
            if let Err(error) = quotas.alter(&alteration) {
                tracing::warn!(%error, "a quota in the metadata is not applied");
            }
        }
        Self { version, source: Arc::clone(source), quotas: Arc::new(quotas) }
    }
}

/// The quotas, and what has passed.
pub(super) struct ClientQuotas {
    table: ArcSwap<Table>,
    /// Held while the table is replaced.
    replacing: Mutex<()>,
    windows: Mutex<Buckets<RateWindow>>,
    mutations: Mutex<Buckets<TokenBucket>>,
    addresses: Mutex<Buckets<RateWindow>>,
    /// Makes the names of buckets unpredictable, so that no client can choose another one's.
    seed: u64,
}

impl Default for ClientQuotas {
    fn default() -> Self {
        Self {
            table: ArcSwap::default(),
            replacing: Mutex::default(),
            windows: Mutex::default(),
            mutations: Mutex::default(),
            addresses: Mutex::default(),
            seed: random::u64(),
        }
    }
}

impl ClientQuotas {
    /// Returns the quotas of these metadata, or of later ones. `None` if there are none.
    pub(super) fn table(&self, image: &MetadataImage) -> Option<Arc<Quotas>> {
        let (version, source) = (image.access().version(), image.access().quotas());
        if source.is_empty() {
            return None;
        }
        let known = self.table.load();
        if known.version >= version {
            return Some(Arc::clone(&known.quotas));
        }
        let _guard = self.replacing.lock();
        let known = self.table.load_full();
        if known.version >= version {
            return Some(Arc::clone(&known.quotas));
        }
        let table = if Arc::ptr_eq(&known.source, source) {
            // Users or rules have changed.
            Table { version, source: Arc::clone(source), quotas: Arc::clone(&known.quotas) }
        } else {
            Table::new(version, source)
        };
        let quotas = Arc::clone(&table.quotas);
        self.table.store(Arc::new(table));
        Some(quotas)
    }

    /// Counts what passed, and returns how long to hold the client up, in milliseconds.
    pub(super) fn passed(&self, key: QuotaKey, quota: &Quota<'_>, units: f64, now_ms: u64) -> u32 {
        let mut windows = self.windows.lock();
        let window = windows.window(self.names(key, quota), quota.is_for_any_client, now_ms);
        window.record(units, now_ms);
        window.throttle_ms(quota.limit, now_ms)
    }

    /// Decides whether an answer may be sent, and counts it if so.
    ///
    /// A single batch may be larger than everything that may pass at once. It is sent if nothing else
    /// violates the quota: otherwise, it would starve the client for ever.
    pub(super) fn delivered(&self, quota: &Quota<'_>, units: f64, now_ms: u64) -> Delivery {
        let mut windows = self.windows.lock();
        let names = self.names(QuotaKey::ConsumerByteRate, quota);
        let window = windows.window(names, quota.is_for_any_client, now_ms);
        let may_overdraw =
            window.throttle_ms(quota.limit, now_ms) == 0 && units > RateWindow::units_max(quota.limit);
        window.record(units, now_ms);
        let throttle_ms = window.throttle_ms(quota.limit, now_ms);
        if throttle_ms == 0 || may_overdraw {
            return Delivery::Send { throttle_ms };
        }
        window.take_back(units, now_ms);
        Delivery::Withhold { throttle_ms }
    }

    /// Spends tokens for changes of the cluster.
    pub(super) fn mutated(
        &self,
        quota: &Quota<'_>,
        count: f64,
        is_strict: bool,
        now_ms: u64,
    ) -> Result<u32, u32> {
        let mut mutations = self.mutations.lock();
        let names = self.names(QuotaKey::ControllerMutationRate, quota);
        let is_any = quota.is_for_any_client;
        let place = mutations.place(names, is_any, now_ms, || TokenBucket::new(now_ms));
        let spent = if is_strict {
            place.meter.spend(count, quota.limit, now_ms).map(|()| 0)
        } else {
            Ok(place.meter.spend_anyway(count, quota.limit, now_ms))
        };
        let debt_ms = u64::from(place.meter.throttle_ms(quota.limit, now_ms));
        place.full_ms = now_ms.saturating_add(debt_ms + BURST_SECONDS * 1000);
        spent
    }

    /// Counts a connection, unless it is beyond the limit. The error is for how long to hold it before it is
    /// closed, in milliseconds.
    pub(super) fn connected(&self, address: IpAddr, limit: f64, now_ms: u64) -> Result<(), u32> {
        let mut addresses = self.addresses.lock();
        let own = self.name(&("address", address.to_canonical()));
        let shared = self.name(&"addresses");
        let window = addresses.window([own, shared, shared], true, now_ms);
        window.record(1.0, now_ms);
        match window.throttle_ms(limit, now_ms) {
            0 => Ok(()),
            throttle_ms => {
                window.take_back(1.0, now_ms);
                Err(throttle_ms.min(REQUEST_THROTTLE_MS_MAX))
            }
        }
    }

    /// Returns the names of a quota's bucket: its own, the one that the user's other clients share, and the
    /// one that all share.
    pub(super) fn names(&self, key: QuotaKey, quota: &Quota<'_>) -> [u64; 3] {
        let Bucket { user, client_id } = quota.bucket;
        [self.name(&("own", key, user, client_id)), self.name(&("user", key, user)), self.name(&("all", key))]
    }

    pub(super) fn name(&self, parts: &impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.seed, parts).hash(&mut hasher);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    const START_MS: u64 = 1_000_000;

    fn quota<'a>(limit: f64, user: Option<&'a str>, client_id: Option<&'a str>) -> Quota<'a> {
        Quota { limit, bucket: Bucket { user, client_id }, is_for_any_client: client_id.is_some() }
    }

    fn quotas() -> ClientQuotas {
        tailrace_runtime::install();
        ClientQuotas::default()
    }

    #[test]
    fn clients_share_a_bucket_if_and_only_if_their_quota_says_so() {
        let quotas = quotas();
        let passed = |quota: &Quota<'_>| quotas.passed(QuotaKey::ProducerByteRate, quota, 1000.0, START_MS);
        let of_user = quota(100.0, Some("alice"), None);
        assert_eq!((passed(&of_user), passed(&of_user)), (0, 10_000));
        for other in [
            quota(100.0, Some("bob"), None),
            quota(100.0, Some("alice"), Some("a")),
            quota(100.0, Some("alice"), Some("b")),
            quota(100.0, None, Some("alice")),
            quota(100.0, None, None),
        ] {
            assert_eq!(passed(&other), 0, "{other:?}");
        }
        let consumed = quotas.passed(QuotaKey::ConsumerByteRate, &of_user, 1000.0, START_MS);
        assert_eq!(consumed, 0, "another key");
    }

    #[test]
    fn a_violating_answer_is_withheld_and_does_not_count() {
        let quotas = quotas();
        let quota = quota(100.0, Some("alice"), None);
        let delivered = |bytes, at_ms| quotas.delivered(&quota, bytes, START_MS + at_ms);
        assert_eq!(delivered(600.0, 0), Delivery::Send { throttle_ms: 0 });
        for _ in 0..3 {
            assert_eq!(delivered(600.0, 0), Delivery::Withhold { throttle_ms: 2000 });
        }
        assert_eq!(delivered(400.0, 0), Delivery::Send { throttle_ms: 0 });
        assert_eq!(delivered(600.0, 11_000), Delivery::Send { throttle_ms: 0 });
    }

    #[test]
    fn a_batch_that_is_larger_than_the_quota_passes_when_nothing_else_violates_it() {
        let quotas = quotas();
        let quota = quota(100.0, Some("alice"), None);
        let delivered = |at_ms| quotas.delivered(&quota, 5000.0, START_MS + at_ms);
        assert_eq!(delivered(0), Delivery::Send { throttle_ms: 40_000 });
        assert!(matches!(delivered(10_000), Delivery::Withhold { .. }));
        assert_eq!(delivered(40_000), Delivery::Send { throttle_ms: 40_000 });
    }

    /// After a first burst, which fills the window. With answers that are most of a window, Kafka's formula
    /// lets less pass: the client asks too early, and is told to wait again.
    #[test]
    fn a_consumer_that_waits_as_told_gets_its_limit() {
        for piece in [10.0, 100.0, 1000.0] {
            let (quotas, quota) = (quotas(), quota(1000.0, Some("alice"), None));
            let (mut now_ms, mut units, mut units_at_20_s) = (START_MS, 0.0, 0.0);
            while now_ms < START_MS + 320_000 {
                if now_ms < START_MS + 20_000 {
                    units_at_20_s = units;
                }
                match quotas.delivered(&quota, piece, now_ms) {
                    Delivery::Send { throttle_ms } => {
                        assert_eq!(throttle_ms, 0, "an answer within the quota");
                        (units, now_ms) = (units + piece, now_ms + 1);
                    }
                    Delivery::Withhold { throttle_ms } => now_ms += u64::from(throttle_ms),
                }
            }
            let rate = (units - units_at_20_s) / 300.0;
            assert!((850.0..=1050.0).contains(&rate), "{piece}: {rate}");
        }
    }

    #[test]
    fn changes_beyond_the_quota_are_refused_or_held_up() {
        let quotas = quotas();
        let quota = quota(5.0, Some("alice"), None);
        let mutated = |count, is_strict, at_ms| quotas.mutated(&quota, count, is_strict, START_MS + at_ms);
        assert_eq!(mutated(65.0, true, 0), Ok(0), "one request may overdraw");
        assert_eq!(mutated(1.0, true, 0), Err(2000));
        assert_eq!(mutated(5.0, false, 0), Ok(3000));
        assert_eq!(mutated(1.0, true, 3000), Ok(0));
    }

    #[test]
    fn a_debt_is_not_forgotten_while_it_is_owed() {
        let quotas = quotas();
        let quota = quota(1.0, Some("alice"), None);
        assert_eq!(quotas.mutated(&quota, 1011.0, true, START_MS), Ok(0));
        // By now, buckets that are full have been looked for.
        assert_eq!(quotas.mutated(&quota, 1.0, true, START_MS + 900_000), Err(100_000));
    }

    #[test]
    fn an_address_that_connects_too_fast_is_held_for_a_second_at_most() {
        let quotas = quotas();
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        for number in 0..10 {
            assert_eq!(quotas.connected(address, 1.0, START_MS), Ok(()), "{number}");
        }
        for mapped in [address, IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped())] {
            assert_eq!(quotas.connected(mapped, 1.0, START_MS), Err(1000));
        }
        assert_eq!(quotas.connected(IpAddr::V6(Ipv6Addr::LOCALHOST), 1.0, START_MS), Ok(()));
        assert_eq!(quotas.connected(address, 1.0, START_MS + 11_000), Ok(()));
    }
}
