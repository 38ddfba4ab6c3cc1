//! An allocator that knows how many bytes are in use. The only file here with `unsafe`.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator with a count. Bytes as asked for: what the allocator adds for itself is its own.
#[derive(Debug, Default)]
pub struct Counting {
    live: AtomicUsize,
}

impl Counting {
    /// Nothing in use yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            live: AtomicUsize::new(0),
        }
    }

    /// Bytes in use.
    #[must_use]
    pub fn live(&self) -> usize {
        self.live.load(Ordering::SeqCst)
    }
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches no memory of the caller. A
// zeroed or grown allocation takes the default road through these two.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.live.fetch_add(layout.size(), Ordering::SeqCst);
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.live.fetch_sub(layout.size(), Ordering::SeqCst);
        // SAFETY: as above; the pointer came from `System.alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}
