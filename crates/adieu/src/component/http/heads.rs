//! How many heads of requests have ended in what an HTTP/1 client has sent, however it was cut on the way.

use std::sync::LazyLock;

use memchr::memmem::Finder;

/// Built once: that takes longer than to find the end of a usual head.
static END: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\r\n\r\n"));

/// The last three bytes, in which a head may have begun to end.
#[derive(Debug, Default)]
pub(super) struct Heads([u8; 3]);

impl Heads {
    /// How many have ended in the next bytes.
    pub(super) fn ended_in(&mut self, bytes: &[u8]) -> u32 {
        let first = END.find(bytes);
        // As a rule: one request, whole, and nothing before or behind it.
        if first.is_some_and(|at| at + 4 == bytes.len()) && !matches!(bytes, [b'\r' | b'\n', ..]) {
            self.0 = *b"\n\r\n";
            return 1;
        }
        let mut count = match first {
            Some(at) => 1 + END.find_iter(&bytes[at + 4..]).count(),
            None => 0,
        };
        let start = bytes.len().min(3);
        let mut seam = [0; 6];
        seam[..3].copy_from_slice(&self.0);
        seam[3..3 + start].copy_from_slice(&bytes[..start]);
        // Only so can an end go on that has begun before.
        if let [b'\r' | b'\n', ..] = bytes {
            count += usize::from(END.find(&seam[..3 + start]).is_some());
        }
        self.0 = match bytes {
            [.., a, b, c] => [*a, *b, *c],
            _ => [seam[start], seam[start + 1], seam[start + 2]],
        };
        u32::try_from(count).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counts_every_end_once_however_it_is_cut(
            heads in prop::collection::vec("[a-z]{1,4}(\r\n[a-z]{1,3}){0,2}", 0..6),
            cuts in prop::collection::vec(1_usize..9, 1..20),
        ) {
            let text: String = heads.iter().map(|head| format!("{head}x\r\n\r\n")).collect();
            let (mut counter, mut count) = (Heads::default(), 0);
            let mut rest = text.as_bytes();
            for cut in cuts.into_iter().cycle() {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                count += counter.ended_in(piece) as usize;
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(count, heads.len());
        }
    }
}
