//! The pages and their paths.

/// A page, named by the last part of its path.
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

/// The paths of the pages.
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

/// Other pages whose requests are counted, as in nats-server.
pub(super) const COUNTED: &[&str] = &["/", "/healthz"];

/// Pages whose requests nats-server does not count.
pub(super) const UNCOUNTED: &[Page] = &[Page::Stacksz, Page::Ipqueuesz];
