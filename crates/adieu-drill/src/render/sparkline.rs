//! A curve in one line of text.

const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// One character a value. Nothing is a blank, and the least that is something is seen.
pub(crate) fn sparkline(values: &[u32]) -> String {
    let most = values.iter().copied().max().unwrap_or(0);
    let step = |value: u32| match value {
        0 => ' ',
        _ => {
            let height = u64::from(value) * STEPS.len() as u64;
            STEPS[(height.div_ceil(u64::from(most)) as usize).clamp(1, STEPS.len()) - 1]
        }
    };
    values.iter().map(|value| step(*value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_is_seen_and_nothing_is_not() {
        assert_eq!(sparkline(&[0, 1, 500, 1_000, 0]), " ▁▄█ ");
        assert_eq!(sparkline(&[1, 1]), "██");
        assert_eq!(sparkline(&[0, 0]), "  ");
        assert_eq!(sparkline(&[]), "");
        assert_eq!(sparkline(&[u32::MAX, 1]), "█▁");
    }
}
