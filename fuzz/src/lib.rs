//! What the targets share.

/// Cuts bytes as a network may: the first byte says where, one bit a cut.
pub fn pieces(bytes: &[u8]) -> Vec<&[u8]> {
    let Some((seed, mut rest)) = bytes.split_first() else {
        return Vec::new();
    };
    let mut pieces = Vec::new();
    for bit in 0..8 {
        if seed & (1 << bit) != 0 && rest.len() > 1 {
            let (piece, more) = rest.split_at(rest.len() / 2);
            pieces.push(piece);
            rest = more;
        }
    }
    pieces.push(rest);
    pieces
}
