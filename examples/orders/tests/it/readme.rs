//! The page of the examples shows code of this program, and leaves some of it out.

#[test]
fn the_page_shows_code_that_is_here() {
    let page = include_str!("../../../README.md");
    let shown = page
        .split("```rust\n")
        .filter_map(|rest| rest.split_once("```"))
        .map(|(code, _)| code)
        .find(|code| code.contains("api::router"))
        .expect("the page shows this program");
    let program = include_str!("../../src/main.rs");
    for piece in shown.split("    // …\n") {
        assert!(program.contains(piece), "not in the program:\n{piece}");
    }
}
