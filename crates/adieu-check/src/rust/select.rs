//! The branches of `select!`, as far as its tokens tell.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::{Expr, Macro};

use super::models;

/// `pattern = future => handler`.
pub(crate) struct Branch {
    pub(crate) future: Option<Expr>,
    pub(crate) handler: Option<Expr>,
    /// A call in the future that must not be dropped half-way.
    pub(crate) unsafe_call: Option<(Span, String)>,
}

/// The branches, if this is a `select!`.
pub(crate) fn branches(mac: &Macro) -> Option<Vec<Branch>> {
    if mac
        .path
        .segments
        .last()
        .is_none_or(|last| last.ident != "select")
    {
        return None;
    }
    let mut branches = Vec::new();
    let mut tokens = mac.tokens.clone().into_iter().peekable();
    while tokens.peek().is_some() {
        // Up to a single `=`: the pattern. `else` has none.
        for token in tokens.by_ref() {
            if is_punct(&token, '=') {
                break;
            }
        }
        let mut future = Vec::new();
        let is_arrow = tokens.peek().is_some_and(|token| is_punct(token, '>'));
        if !is_arrow {
            while let Some(token) = tokens.next() {
                if is_punct(&token, '=') && tokens.peek().is_some_and(|next| is_punct(next, '>')) {
                    break;
                }
                future.push(token);
            }
        }
        tokens.next();
        let mut handler = Vec::new();
        while let Some(token) = tokens.next() {
            if is_punct(&token, ',') {
                break;
            }
            let block = matches!(&token, TokenTree::Group(group) if group.delimiter() == proc_macro2::Delimiter::Brace);
            handler.push(token);
            if block && handler.len() == 1 {
                if tokens.peek().is_some_and(|next| is_punct(next, ',')) {
                    tokens.next();
                }
                break;
            }
        }
        // `future, if condition` ends the future.
        let end = future
            .iter()
            .position(|token| is_punct(token, ','))
            .unwrap_or(future.len());
        let future: TokenStream = future.into_iter().take(end).collect();
        branches.push(Branch {
            unsafe_call: unsafe_call(future.clone()),
            future: syn::parse2(future).ok(),
            handler: syn::parse2(handler.into_iter().collect()).ok(),
        });
    }
    Some(branches)
}

fn is_punct(token: &TokenTree, char: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == char)
}

fn unsafe_call(tokens: TokenStream) -> Option<(Span, String)> {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        if let TokenTree::Ident(ident) = &token {
            let name = ident.to_string();
            let called = matches!(tokens.peek(), Some(TokenTree::Group(_)));
            if called && models::NOT_CANCEL_SAFE.contains(&name.as_str()) {
                return Some((ident.span(), name));
            }
        }
    }
    None
}
