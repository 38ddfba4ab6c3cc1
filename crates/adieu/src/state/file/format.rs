//! What a file of state looks like inside, and how damage to it is found.

use std::borrow::Cow;

use adieu_core::{Entry, Record, Version};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The layout written here, and the newest one that is understood.
const LAYOUT: u64 = 1;

/// KeyFiles are filled up with blanks to a multiple of this: a generation that is as long as the one before can be written
/// in the place of it.
const LENGTH_MULTIPLE: usize = 512;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StateFile<'a> {
    #[serde(rename = "adieu")]
    _layout: u64,
    #[serde(borrow)]
    key: Cow<'a, str>,
    version: u64,
    format: u32,
    /// Missing after a person has edited the file.
    #[serde(borrow, default)]
    checksum: Option<Cow<'a, str>>,
    #[serde(borrow)]
    value: &'a RawValue,
}

/// All that is asked of a file before its layout is known.
#[derive(Deserialize)]
struct LayoutVersion {
    adieu: u64,
}

#[derive(Debug, PartialEq)]
pub(super) enum ReadError {
    /// From the future: not damaged at all.
    Newer(u64),
    /// Why it cannot be what was saved.
    Corrupt(String),
}

pub(super) fn write(
    key: &str,
    version: Version,
    entry: &Entry,
) -> Result<String, serde_json::Error> {
    // Text that is not JSON would damage the file around it.
    let value: &RawValue = serde_json::from_str(&entry.value)?;
    let (value, format) = (value.get(), entry.format);
    let checksum = checksum(key, version.0, format, value);
    let key = serde_json::to_string(key)?;
    let mut text = format!(
        "{{\n  \"adieu\": {LAYOUT},\n  \"key\": {key},\n  \"version\": {version},\n  \"format\": {format},\n  \
         \"checksum\": \"{checksum}\",\n  \"value\": {value}\n}}\n"
    );
    let blanks = text.len().next_multiple_of(LENGTH_MULTIPLE) - text.len();
    text.push_str(&" ".repeat(blanks));
    Ok(text)
}

pub(super) fn read(key: &str, bytes: &[u8]) -> Result<Record, ReadError> {
    let corrupt = |why: String| ReadError::Corrupt(why);
    let text = std::str::from_utf8(bytes).map_err(|_| corrupt("it is not text".to_owned()))?;
    if text.trim_matches(['\0', ' ', '\n']).is_empty() {
        return Err(corrupt("it is empty".to_owned()));
    }
    if let Ok(LayoutVersion { adieu: found }) = serde_json::from_str(text)
        && found > LAYOUT
    {
        return Err(ReadError::Newer(found));
    }
    let found: StateFile<'_> =
        serde_json::from_str(text).map_err(|error| corrupt(error.to_string()))?;
    let value = found.value.get();
    let expected = checksum(&found.key, found.version, found.format, value);
    if found.checksum.is_some_and(|stated| stated != expected) {
        return Err(corrupt("its checksum does not match".to_owned()));
    }
    if found.key != key {
        return Err(corrupt(format!("it is the state `{}`", found.key)));
    }
    let entry = Entry::new(found.format, 0, value);
    Ok(Record::new(Version(found.version), entry))
}

/// Over everything that means something, so that no digit can change unnoticed.
fn checksum(key: &str, version: u64, format: u32, value: &str) -> String {
    let mut sum = crc32fast::Hasher::new();
    sum.update(format!("{key}\n{version}\n{format}\n").as_bytes());
    sum.update(value.as_bytes());
    format!("crc32:{:08x}", sum.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(value: &str) -> Entry {
        Entry::new(3, 0, value)
    }

    fn written() -> String {
        write("a\"b", Version(7), &entry(r#"{"last_id": 9}"#)).expect("it is JSON")
    }

    #[test]
    fn what_is_written_is_read() {
        let found = read("a\"b", written().as_bytes()).expect("it is whole");
        assert_eq!(found.version, Version(7));
        assert_eq!(found.entry, entry(r#"{"last_id": 9}"#));
        let json: serde_json::Value = serde_json::from_str(&written()).expect("JSON for everyone");
        assert_eq!(json["value"]["last_id"], 9);
    }

    #[test]
    fn any_damaged_byte_is_found() {
        let whole = written();
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                if let Ok(found) = read("a\"b", &bytes) {
                    // White space between the fields may be any white space.
                    assert_eq!(
                        found,
                        read("a\"b", whole.as_bytes()).expect("whole"),
                        "byte {at}"
                    );
                }
            }
        }
        for length in 0..whole.trim_end().len() {
            assert!(
                read("a\"b", &whole.as_bytes()[..length]).is_err(),
                "cut at {length}"
            );
        }
    }

    #[test]
    fn by_hand_means_without_a_checksum() {
        let by_hand = r#"{"adieu":1,"key":"k","version":2,"format":1,"value":{"last_id":5}}"#;
        assert_eq!(
            read("k", by_hand.as_bytes()).expect("fine").version,
            Version(2)
        );
    }

    #[test]
    fn the_future_is_no_damage() {
        let newer = r#"{"adieu":2,"all":"different"}"#;
        assert_eq!(read("k", newer.as_bytes()), Err(ReadError::Newer(2)));
    }

    #[test]
    fn no_json_is_not_written() {
        for wrong in ["", "{", "1 2", "}\n{"] {
            assert!(write("k", Version(1), &entry(wrong)).is_err(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_read_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read("k", &bytes);
        }
    }
}
