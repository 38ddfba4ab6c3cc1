//! What the two processes say to each other about connections: one message each, with a bound on its size.

use std::io;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::net::connection_snapshot::{
    CarriedCounters, CarriedRequest, ConnectionSnapshot, MAX_STATE, RawState,
};

/// The most bytes that a client has sent and no handler has seen, as they travel with their connection.
const MAX_UNREAD: usize = 64 * 1_024 + 8_192;
/// The longest name of a listener, of a state, or reason of a refusal.
const MAX_NAME: usize = 256;
/// The most listeners that a new process can name.
const MAX_SERVERS: usize = 256;
/// No message is longer.
pub(super) const MAX_MESSAGE: usize = 4 + MAX_HEAD + MAX_UNREAD + MAX_STATE;
const MAX_HEAD: usize = 32 * 1_024;
/// What an old and a new process have to agree on.
const FORMAT: u32 = 1;

/// What a connection is to the server that takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// HTTP/1 between two requests, without TLS.
    Http1,
    /// A handler of the program, without TLS, with its state.
    Tcp,
    /// A handler of the program, without TLS, with its state and the request that it began with.
    WebSocket,
    /// HTTP/1 in the middle of a response, between two events, without TLS, with the state of the handler and the request.
    EventStream,
}

impl Kind {
    /// For the report.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Http1 => "HTTP/1",
            Self::Tcp => "TCP",
            Self::WebSocket => "WebSocket",
            Self::EventStream => "event stream",
        }
    }
}

/// What is said over the channel.
#[expect(
    clippy::large_enum_variant,
    reason = "the largest one is nearly every message, and is never kept"
)]
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// From the new process, once: what it takes.
    Hello(Hello),
    /// From the old process, with the socket.
    Offer(Offer),
    /// From the new process: the connection is its own from here on.
    Taken(u64),
    /// From the new process: the connection stays with the old one.
    Refused(u64, String),
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    format: u32,
    pub(super) service: String,
    /// Listeners by name. A newer process may take kinds that are not known here.
    #[serde(deserialize_with = "known_servers")]
    pub(super) servers: Vec<(String, Kind)>,
}

fn known_servers<'de, D>(message: D) -> Result<Vec<(String, Kind)>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    let all = Vec::<(String, serde_json::Value)>::deserialize(message)?;
    let known = |(name, kind)| Some((name, serde_json::from_value(kind).ok()?));
    Ok(all.into_iter().filter_map(known).collect())
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) number: u64,
    pub(super) server: String,
    pub(super) kind: Kind,
    pub(super) snapshot: ConnectionSnapshot,
}

/// The first part of a message. Bytes of a client and of a program follow it as they are.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum MessageHead {
    Hello(Hello),
    Offer(OfferHead),
    Taken { number: u64 },
    Refused { number: u64, why: String },
}

#[derive(Serialize, Deserialize)]
struct OfferHead {
    number: u64,
    server: String,
    kind: Kind,
    counters: CarriedCounters,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    peer: Option<SocketAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request: Option<CarriedRequest>,
    unread: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<StateHead>,
}

#[derive(Serialize, Deserialize)]
struct StateHead {
    name: String,
    version: u32,
    size: usize,
}

/// A message that cannot be understood.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Torn {
    /// The number of the offer, if that much of it can be read.
    pub(super) number: Option<u64>,
}

impl Hello {
    pub(super) fn new(service: &str, servers: Vec<(String, Kind)>) -> Self {
        Self {
            format: FORMAT,
            service: service.to_owned(),
            servers,
        }
    }

    /// Why this process gives its connections to none that says this.
    pub(super) fn objection(&self, service: &str) -> Option<String> {
        if self.format != FORMAT {
            let format = self.format;
            return Some(format!(
                "the new process moves connections in format {format}, this one in format {FORMAT}"
            ));
        }
        (self.service != service).then(|| {
            let other = crate::util::printable::name_of(self.service.chars());
            format!("the new process is the service `{other}`, and this one `{service}`")
        })
    }
}

impl Message {
    /// An error is too large to be sent.
    pub(super) fn encode(self) -> io::Result<Vec<u8>> {
        let (mut unread, mut bytes) = (Vec::new(), Vec::new());
        let head = match self {
            Self::Hello(hello) => MessageHead::Hello(hello),
            Self::Taken(number) => MessageHead::Taken { number },
            Self::Refused(number, why) => {
                let why = why.chars().take(MAX_NAME / 4).collect();
                MessageHead::Refused { number, why }
            }
            Self::Offer(offer) => {
                let ConnectionSnapshot {
                    counters,
                    peer,
                    request,
                    is_event_stream: _,
                    unread: pending,
                    state,
                } = offer.snapshot;
                unread = pending;
                let state = state.map(|state| {
                    bytes = state.bytes;
                    StateHead {
                        name: state.name,
                        version: state.version,
                        size: bytes.len(),
                    }
                });
                MessageHead::Offer(OfferHead {
                    number: offer.number,
                    server: offer.server,
                    kind: offer.kind,
                    counters,
                    peer,
                    request,
                    unread: unread.len(),
                    state,
                })
            }
        };
        let head = serde_json::to_vec(&head)?;
        if head.len() > MAX_HEAD || unread.len() > MAX_UNREAD || bytes.len() > MAX_STATE {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is too large to move",
            ));
        }
        let size = u32::try_from(head.len()).map_err(io::Error::other)?;
        Ok([&size.to_le_bytes()[..], &head, &unread, &bytes].concat())
    }

    /// Reads a message back. Whatever is in it: no panic, and no more memory than it has bytes.
    pub(super) fn decode(message: &[u8]) -> Result<Self, Torn> {
        const TORN: Torn = Torn { number: None };
        let (size, rest) = message.split_first_chunk::<4>().ok_or(TORN)?;
        let size = usize::try_from(u32::from_le_bytes(*size)).map_err(|_| TORN)?;
        let (head, rest) = rest.split_at_checked(size).ok_or(TORN)?;
        let head: MessageHead = serde_json::from_slice(head).map_err(|_| Torn {
            number: number_in(head),
        })?;
        match head {
            MessageHead::Hello(hello) if rest.is_empty() && hello.servers.len() <= MAX_SERVERS => {
                Ok(Self::Hello(hello))
            }
            MessageHead::Taken { number } if rest.is_empty() => Ok(Self::Taken(number)),
            MessageHead::Refused { number, why } if rest.is_empty() && why.len() <= MAX_NAME => {
                Ok(Self::Refused(number, why))
            }
            MessageHead::Offer(offer) => {
                let number = offer.number;
                let torn = || Torn {
                    number: Some(number),
                };
                Self::offer(offer, rest).ok_or_else(torn)
            }
            _ => Err(TORN),
        }
    }

    fn offer(offer: OfferHead, rest: &[u8]) -> Option<Self> {
        let state_size = offer.state.as_ref().map_or(0, |state| state.size);
        let is_small = offer.unread <= MAX_UNREAD
            && state_size <= MAX_STATE
            && offer.server.len() <= MAX_NAME
            && offer
                .state
                .as_ref()
                .is_none_or(|it| it.name.len() <= MAX_NAME);
        let (unread, state) = rest.split_at_checked(offer.unread).filter(|_| is_small)?;
        // A route is found by the request, and nothing else has one.
        let has_route = matches!(offer.kind, Kind::WebSocket | Kind::EventStream);
        if state.len() != state_size || offer.request.is_some() != has_route {
            return None;
        }
        Some(Self::Offer(Offer {
            number: offer.number,
            server: offer.server,
            kind: offer.kind,
            snapshot: ConnectionSnapshot {
                counters: offer.counters,
                peer: offer.peer,
                request: offer.request,
                is_event_stream: offer.kind == Kind::EventStream,
                unread: unread.to_vec(),
                state: offer.state.map(|head| RawState {
                    name: head.name,
                    version: head.version,
                    bytes: state.to_vec(),
                }),
            },
        }))
    }
}

/// The number of an offer of which a newer version says more than this one understands.
fn number_in(head: &[u8]) -> Option<u64> {
    let head: serde_json::Value = serde_json::from_slice(head).ok()?;
    head.get("offer")?.get("number")?.as_u64()
}

/// Reads any bytes as a message. What is understood must survive being written and read again.
#[cfg(any(test, fuzzing))]
pub(crate) fn check_any(bytes: &[u8]) {
    let Ok(message) = Message::decode(bytes) else {
        return;
    };
    let Ok(written) = message.encode() else {
        return;
    };
    let read = Message::decode(&written).expect("what is written can be read");
    assert_eq!(read.encode().expect("as before"), written);
}

/// Where the bytes of a client stand in an encoded offer, for tests that cut it.
#[cfg(test)]
fn head_range(message: &[u8]) -> std::ops::Range<usize> {
    let size = u32::from_le_bytes(message[..4].try_into().expect("four bytes"));
    4..4 + usize::try_from(size).expect("a size")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn offer() -> impl Strategy<Value = Offer> {
        let state = (".{0,20}", any::<u32>(), any::<Vec<u8>>());
        let state = state.prop_map(|(name, version, bytes)| RawState {
            name,
            version,
            bytes,
        });
        let counters = any::<(u32, u64, u64, u64)>();
        let peer = prop_oneof![
            Just(None),
            Just("127.0.0.1:80".parse().ok()),
            Just("[::1]:9".parse().ok())
        ];
        (
            any::<u64>(),
            ".{0,20}",
            prop_oneof![
                Just(Kind::Http1),
                Just(Kind::Tcp),
                Just(Kind::WebSocket),
                Just(Kind::EventStream)
            ],
            counters,
            peer,
            any::<Vec<u8>>(),
            proptest::option::of(state),
        )
            .prop_map(|(number, server, kind, counters, peer, unread, state)| {
                let (served, age_ms, idle_ms, head_ms) = counters;
                let has_route = matches!(kind, Kind::WebSocket | Kind::EventStream);
                let request = has_route.then(|| CarriedRequest {
                    target: "/chat?room=tea".to_owned(),
                    headers: vec![("cookie".to_owned(), "caf\u{e9}".to_owned())],
                    protocol: (served % 2 == 0).then(|| "chat".to_owned()),
                });
                Offer {
                    number,
                    server,
                    kind,
                    snapshot: ConnectionSnapshot {
                        counters: CarriedCounters {
                            served,
                            age_ms,
                            idle_ms,
                            head_ms,
                        },
                        peer,
                        request,
                        is_event_stream: kind == Kind::EventStream,
                        unread,
                        state,
                    },
                }
            })
    }

    fn copy(offer: &Offer) -> Offer {
        Offer {
            number: offer.number,
            server: offer.server.clone(),
            kind: offer.kind,
            snapshot: offer.snapshot.clone(),
        }
    }

    proptest! {
        #[test]
        fn what_is_sent_is_what_arrives(offer in offer()) {
            let written = Message::Offer(copy(&offer)).encode().expect("it is small");
            prop_assert_eq!(Message::decode(&written), Ok(Message::Offer(offer)));
        }

        /// However it is cut short or continued, no other connection comes out of it.
        #[test]
        fn a_torn_offer_is_an_error(offer in offer(), at in any::<prop::sample::Index>(), more in 1_usize..5) {
            let mut written = Message::Offer(copy(&offer)).encode().expect("it is small");
            let cut = at.index(written.len());
            let torn = Message::decode(&written[..cut]).expect_err("it is cut");
            let knows_number = cut >= head_range(&written).end;
            prop_assert_eq!(torn.number, knows_number.then_some(offer.number));
            written.extend(std::iter::repeat_n(b'x', more));
            prop_assert_eq!(Message::decode(&written), Err(Torn { number: Some(offer.number) }));
        }

        #[test]
        fn nonsense_is_an_error_and_no_panic(bytes in any::<Vec<u8>>()) {
            check_any(&bytes);
        }
    }

    #[test]
    fn what_a_newer_version_offers_can_be_refused_by_its_number() {
        let head =
            br#"{"offer":{"number":7,"server":"api","kind":"quic","unread":0,"counters":{}}}"#;
        let size = u32::try_from(head.len()).expect("a size");
        let message = [&size.to_le_bytes()[..], head].concat();
        assert_eq!(Message::decode(&message), Err(Torn { number: Some(7) }));
    }

    /// Of two versions that know different kinds, the connections move that both know.
    #[test]
    fn what_a_newer_version_takes_is_known_as_far_as_it_goes() {
        let head =
            br#"{"hello":{"format":1,"service":"web","servers":[["api","quic"],["api","http1"]]}}"#;
        let size = u32::try_from(head.len()).expect("a size");
        let message = [&size.to_le_bytes()[..], head].concat();
        let known = Hello::new("web", vec![("api".to_owned(), Kind::Http1)]);
        assert_eq!(Message::decode(&message), Ok(Message::Hello(known)));
    }

    #[test]
    fn what_is_too_large_is_not_sent() {
        let snapshot = ConnectionSnapshot {
            unread: vec![b'x'; MAX_UNREAD + 1],
            ..ConnectionSnapshot::default()
        };
        let offer = Offer {
            number: 1,
            server: "api".to_owned(),
            kind: Kind::Http1,
            snapshot,
        };
        let error = Message::Offer(offer).encode().expect_err("it is too large");
        assert_eq!(error.to_string(), "it is too large to move");
    }

    #[test]
    fn another_service_gets_nothing() {
        let hello = Hello::new("web", Vec::new());
        assert_eq!(hello.objection("web"), None);
        assert_eq!(
            hello.objection("shop").as_deref(),
            Some("the new process is the service `web`, and this one `shop`")
        );
        let newer = Hello {
            format: 2,
            ..Hello::new("web", Vec::new())
        };
        assert_eq!(
            newer.objection("web").as_deref(),
            Some("the new process moves connections in format 2, this one in format 1")
        );
    }
}
