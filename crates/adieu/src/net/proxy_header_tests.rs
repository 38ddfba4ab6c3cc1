//! Headers whole, in pieces, and with a byte that is wrong.

use proptest::prelude::*;

use super::*;

/// The header, and how many bytes were read for it, if no read brings more than so many.
fn read(mut bytes: &[u8], most: usize) -> Result<(usize, Option<ProxyHeader>), Malformed> {
    let mut parser = HeaderParser::new();
    let mut count = 0;
    while !bytes.is_empty() {
        let (read, rest) = bytes.split_at(parser.wants().clamp(1, most).min(bytes.len()));
        count += read.len();
        bytes = rest;
        if let Some(header) = parser.feed(read)? {
            return Ok((count, Some(header)));
        }
    }
    Ok((count, None))
}

fn parse(bytes: &[u8]) -> Result<(usize, Option<ProxyHeader>), Malformed> {
    read(bytes, usize::MAX)
}

fn from(source: &str, destination: &str) -> ProxyHeader {
    ProxyHeader::Client {
        source: source.parse().expect("an address"),
        destination: destination.parse().expect("an address"),
    }
}

/// A header of version 2.
fn binary(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).expect("it fits").to_be_bytes();
    [SIGNATURE, &[command, family], &length, rest].concat()
}

const V4: &[u8] = &[192, 0, 2, 7, 198, 51, 100, 1, 0x12, 0x67, 0x01, 0xbb];

fn v6() -> Vec<u8> {
    let source: Ipv6Addr = "2001:db8::7".parse().expect("an address");
    let destination: Ipv6Addr = "2001:db8::1".parse().expect("an address");
    [&source.octets()[..], &destination.octets(), &V4[8..]].concat()
}

/// Each with what it says.
fn good() -> Vec<(Vec<u8>, ProxyHeader)> {
    let v4 = from("192.0.2.7:4711", "198.51.100.1:443");
    let v6_header = from("[2001:db8::7]:4711", "[2001:db8::1]:443");
    let longest = b"PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n";
    assert_eq!(longest.len(), LINE_MAX);
    let tlvs = [V4, &[4, 0, 3, 0, 0, 0], &[0x20, 0xff, 0x00], &[7; 600]].concat();
    let most = [&v6()[..], &vec![0; usize::from(u16::MAX) - 36]].concat();
    vec![
        (
            b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\r\n".to_vec(),
            v4,
        ),
        (
            b"PROXY TCP6 2001:db8::7 2001:db8::1 4711 443\r\n".to_vec(),
            v6_header,
        ),
        (b"PROXY UNKNOWN\r\n".to_vec(), ProxyHeader::Own),
        (
            b"PROXY UNKNOWN anything at all \r\n".to_vec(),
            ProxyHeader::Own,
        ),
        (longest.to_vec(), ProxyHeader::Own),
        (binary(0x21, 0x11, V4), v4),
        (binary(0x21, 0x11, &tlvs), v4),
        (binary(0x21, 0x21, &v6()), v6_header),
        (binary(0x21, 0x21, &most), v6_header),
        (binary(0x21, 0x00, b""), ProxyHeader::Own),
        (binary(0x21, 0x31, &[b'/'; 216]), ProxyHeader::Own),
        (binary(0x20, 0x00, b""), ProxyHeader::Own),
        (binary(0x20, 0x11, V4), ProxyHeader::Own),
        (binary(0x20, 0xff, &[1; 40]), ProxyHeader::Own),
    ]
}

#[test]
fn a_header_is_read_and_what_follows_is_left() {
    for (bytes, header) in good() {
        let followed = [&bytes[..], b"GET / HTTP/1.1\r\n"].concat();
        for most in [usize::MAX, 1, 2, 3, 7] {
            let read = read(&followed, most);
            assert_eq!(
                read,
                Ok((bytes.len(), Some(header))),
                "{most} at a time, {bytes:?}"
            );
        }
    }
}

#[test]
fn every_prefix_of_a_header_waits_for_more() {
    for (bytes, header) in good() {
        // Of the long ones, whose extensions are passed over, a hundred.
        let step = bytes.len() / 120 + 1;
        for end in (0..bytes.len()).step_by(step) {
            let mut parser = HeaderParser::new();
            assert_eq!(parser.feed(&bytes[..end]), Ok(None), "{end} of {bytes:?}");
            let wants = parser.wants();
            assert!(
                (1..=bytes.len() - end).contains(&wants),
                "{wants} from {end} of {bytes:?}"
            );
            let rest = parser.feed(&bytes[end..]);
            assert_eq!(rest, Ok(Some(header)), "from {end} of {bytes:?}");
        }
    }
}

#[test]
fn what_is_no_header_is_refused() {
    let foreign = "the connection does not begin with a header";
    let family = "its family is none of TCP4, TCP6 and UNKNOWN";
    let addresses = "its addresses are not two addresses and two ports";
    let cases: &[(&[u8], &str)] = &[
        (b"GET / HTTP/1.1\r\n", foreign),
        (b"PRI * HTTP/2.0\r\n", foreign),
        (b"\x16\x03\x01", foreign),
        (b"proxy TCP4", foreign),
        (b"PROXY\t", foreign),
        (b"\r\n\r\nGET", foreign),
        (
            b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\n",
            "its line ends without a carriage return",
        ),
        (b"PROXY \r\n", family),
        (b"PROXY TCP5 a b c d\r\n", family),
        (b"PROXY unknown\r\n", family),
        (b"PROXY TCP4\r\n", addresses),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 4711\r\n", addresses),
        (
            b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 443 \r\n",
            addresses,
        ),
        (
            b"PROXY TCP4 192.0.2.7  198.51.100.1 4711 443\r\n",
            addresses,
        ),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 +471 443\r\n", addresses),
        (
            b"PROXY TCP4 192.0.2.7 198.51.100.1 65536 443\r\n",
            addresses,
        ),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1  443\r\n", addresses),
        (b"PROXY TCP4 192.0.2.256 198.51.100.1 1 1\r\n", addresses),
        (b"PROXY TCP4 2001:db8::7 2001:db8::1 1 1\r\n", addresses),
        (b"PROXY TCP6 192.0.2.7 198.51.100.1 1 1\r\n", addresses),
        (b"PROXY TCP4 \xff\r\n", "its line is not text"),
        (
            &[b"PROXY UNKNOWN ", &[b'x'; 93][..]].concat(),
            "its line is longer than 107 bytes",
        ),
        (
            &binary(0x21, 0x11, &V4[..11]),
            "it is too short for its addresses",
        ),
        (
            &binary(0x21, 0x21, &v6()[..35]),
            "it is too short for its addresses",
        ),
        (
            &binary(0x21, 0x12, V4),
            "it is not about a TCP or Unix stream",
        ),
        (
            &binary(0x21, 0x41, V4),
            "it is not about a TCP or Unix stream",
        ),
        (
            &binary(0x22, 0x11, V4),
            "its command is neither LOCAL nor PROXY",
        ),
        (&binary(0x31, 0x11, V4), "its version is neither 1 nor 2"),
        (&binary(0x11, 0x11, V4), "its version is neither 1 nor 2"),
    ];
    for (bytes, why) in cases {
        assert_eq!(
            parse(bytes),
            Err(Malformed(why)),
            "{}",
            String::from_utf8_lossy(bytes)
        );
    }
}

/// A header that claims to be long is refused by its first sixteen bytes, if there is anything wrong with them.
#[test]
fn a_wrong_command_is_not_waited_for() {
    let header = binary(0x2f, 0x11, &[0; 60_000]);
    assert!(parse(&header[..FIXED]).is_err());
    assert_eq!(parse(&header[..FIXED - 1]), Ok((FIXED - 1, None)));
}

proptest! {
    #[test]
    fn any_bytes_in_any_pieces_are_the_same_header(
        start in prop_oneof![Just(&b""[..]), Just(LINE), Just(SIGNATURE)],
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        most in 1_usize..40,
    ) {
        let bytes = [start, &bytes].concat();
        prop_assert_eq!(read(&bytes, most), parse(&bytes));
    }
}
