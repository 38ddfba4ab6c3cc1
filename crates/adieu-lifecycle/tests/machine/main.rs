//! The machine of the life cycle against its promises, in every order of events.
//!
//! - [`auditor`]: the promises, and who watches that each step keeps them;
//! - [`world`]: what the machine lives in, as the conductor and the roster would be, but everything that
//!   could happen next is a choice; [`roster`] is the part of it that counts work;
//! - [`ahead`]: what comes if from now on every part hangs;
//! - [`model`]: all orders, with few parts; [`scripts`]: random orders, with many;
//! - [`cases`]: single orders worth a name; [`outer`]: a platform that is in a hurry; [`duck`]: whom the lame duck is for;
//!   [`orders`]: single steps, with exactly what they order.
//!
//! On one system only: the machine knows of none.
#![cfg(unix)]

mod ahead;
mod auditor;
mod cases;
mod duck;
mod model;
mod orders;
mod outer;
mod roster;
mod scripts;
mod world;
