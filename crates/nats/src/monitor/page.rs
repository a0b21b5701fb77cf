//! The pages and their paths.

/// A page, by the last part of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Varz,
    Connz,
    Subsz,
    Routez,
    Gatewayz,
    Leafz,
    Accountz,
    Accstatz,
    Jsz,
    Stacksz,
    Ipqueuesz,
}

/// Paths of the pages.
pub(super) const PATHS: &[(&str, Page)] = &[
    ("/varz", Page::Varz),
    ("/connz", Page::Connz),
    ("/subsz", Page::Subsz),
    ("/subscriptionsz", Page::Subsz),
    ("/routez", Page::Routez),
    ("/gatewayz", Page::Gatewayz),
    ("/leafz", Page::Leafz),
    ("/accountz", Page::Accountz),
    ("/accstatz", Page::Accstatz),
    ("/jsz", Page::Jsz),
    ("/stacksz", Page::Stacksz),
    ("/ipqueuesz", Page::Ipqueuesz),
];

/// Pages beside these whose requests are counted, as nats-server does.
pub(super) const COUNTED: &[&str] = &["/", "/healthz"];

/// Pages that nats-server does not count.
pub(super) const UNCOUNTED: &[Page] = &[Page::Stacksz, Page::Ipqueuesz];
