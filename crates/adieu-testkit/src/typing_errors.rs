//! A text as it is after slips of the hand.

/// A slip: where, in thousandths of the text; how many characters are gone; and what was typed in their place.
pub type TypingError = (u16, u8, String);

/// The text with these slips in it, one after the other.
///
/// ```
/// use adieu_testkit::with_typing_errors;
///
/// let slips = [(0, 1, "H".to_owned()), (1_000, 0, "!".to_owned())];
/// assert_eq!(with_typing_errors("hällo", &slips), "Hällo!");
/// ```
#[must_use]
pub fn with_typing_errors(text: &str, slips: &[TypingError]) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    for (place, gone, typed) in slips {
        let length = characters.len();
        let from = (usize::from(*place) * length / 1_000).min(length);
        let to = (from + usize::from(*gone)).min(length);
        characters.splice(from..to, typed.chars());
    }
    characters.into_iter().collect()
}
