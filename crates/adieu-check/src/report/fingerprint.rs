//! What a finding is known by when lines move.

use rustc_hash::FxHashMap;

use crate::finding::Finding;

/// A fingerprint for each finding, in their order: of its path, its rule and its message, and of how
/// many like it came before in the file. No line is in it, so code may move.
pub(super) fn fingerprints(findings: &[Finding]) -> Vec<String> {
    let mut before: FxHashMap<(&str, &str, &str), u32> = FxHashMap::default();
    findings
        .iter()
        .map(|finding| {
            let (path, code, message) = (&*finding.path, finding.code.as_str(), &*finding.message);
            let count = before.entry((path, code, message)).or_insert(0);
            *count += 1;
            format!("{:016x}", fnv(&[path, code, message, &count.to_string()]))
        })
        .collect()
}

/// FNV-1a in 64 bits, whose values are the same on every machine and in every version.
fn fnv(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::fingerprints;
    use crate::finding::{Finding, Place};
    use crate::rule;

    #[test]
    fn lines_may_move_and_two_alike_differ() {
        let at = |line| Finding::new(&"a.py".into(), Place::line(line), rule::BLOCKING_SLEEP, "x");
        let (one, two) = (fingerprints(&[at(1), at(2)]), fingerprints(&[at(7), at(9)]));
        assert_eq!(one, two);
        assert_ne!(one[0], one[1]);
    }
}
