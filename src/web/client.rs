//! Whose request this is, as far as limits are concerned.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::HeaderMap;
use axum::http::request::Parts;

use super::WebState;

/// The address that limits count: of the peer, or what the configured number of trusted proxies say. IPv6 by
/// /64, which one visitor has to themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);

impl FromRequestParts<WebState> for ClientAddress {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &WebState) -> Result<Self, Infallible> {
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
        // A Unix socket has no peer address; whoever is behind it shares one.
        let peer = peer.unwrap_or(IpAddr::V6(Ipv6Addr::LOCALHOST));
        Ok(Self(client(peer, &parts.headers, state.settings.trusted_proxies)))
    }
}

/// Each proxy appends the address it saw; the one appended by the outermost trusted proxy is the client's.
/// Whatever stands left of it the client wrote itself.
fn client(peer: IpAddr, headers: &HeaderMap, proxies: usize) -> IpAddr {
    let forwarded: Vec<&str> = headers
        .get_all("x-forwarded-for")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .collect();
    let said = proxies.checked_sub(1).and_then(|skip| forwarded.iter().rev().nth(skip));
    whole(said.and_then(|text| parse(text)).unwrap_or(peer))
}

/// With or without a port.
fn parse(text: &str) -> Option<IpAddr> {
    let bare = text.trim_start_matches('[').split(']').next().unwrap_or(text);
    bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

/// One visitor's whole network.
fn whole(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(forwarded: &[&str], proxies: usize) -> String {
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append("x-forwarded-for", value.parse().expect("a header"));
        }
        client("10.0.0.1".parse().expect("an address"), &headers, proxies).to_string()
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        assert_eq!(seen(&["1.1.1.1"], 0), "10.0.0.1");
        assert_eq!(seen(&["1.1.1.1, 203.0.113.9"], 1), "203.0.113.9");
        assert_eq!(seen(&["6.6.6.6", "203.0.113.9, 192.0.2.7"], 2), "203.0.113.9");
        assert_eq!(seen(&[], 1), "10.0.0.1");
        assert_eq!(seen(&["6.6.6.6, nonsense"], 1), "10.0.0.1");
        assert_eq!(seen(&["203.0.113.9:4711"], 1), "203.0.113.9");
    }

    #[test]
    fn one_visitors_many_addresses_count_as_one() {
        assert_eq!(seen(&["2001:db8:1:2:aaaa::1"], 1), "2001:db8:1:2::");
        assert_eq!(seen(&["[2001:db8:1:2:bbbb::2]:443"], 1), "2001:db8:1:2::");
        assert_eq!(seen(&["::ffff:203.0.113.9"], 1), "203.0.113.9");
    }
}
