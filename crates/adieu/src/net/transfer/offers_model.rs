//! Both processes and the kernel between them, in every order of their steps, with a death at every one of them.

use std::collections::{BTreeSet, VecDeque};

use super::*;

/// The old process's side of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Old {
    /// It reads and writes.
    Uses,
    Waits(u64),
    Left,
}

/// The new process's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum New {
    Nothing,
    /// It has the socket, and has said nothing.
    Holds(u64),
    Uses,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reply {
    Taken(u64),
    Refused(u64),
    Nonsense,
}

/// Two connections, and the two queues of the channel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    old: [Old; 2],
    new: [New; 2],
    offers: VecDeque<(usize, u64)>,
    replies: VecDeque<Reply>,
    old_is_alive: bool,
    new_is_alive: bool,
    /// The new process has closed its end, dead or not.
    new_end_is_closed: bool,
    ledger: Ledger,
}

/// What [`Offers`] knows, in a form that can be compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ledger {
    next: u64,
    open: Vec<(u64, usize)>,
    is_open: bool,
}

impl Ledger {
    fn of(offers: &Offers<usize>) -> Self {
        Self {
            next: offers.next,
            open: offers
                .open
                .iter()
                .map(|(number, who)| (*number, *who))
                .collect(),
            is_open: offers.is_open(),
        }
    }

    fn offers(&self) -> Offers<usize> {
        Offers {
            next: self.next,
            open: self.open.iter().copied().collect(),
            state: if self.is_open {
                ChannelState::Open
            } else {
                ChannelState::Distrusted
            },
        }
    }
}

impl World {
    fn start() -> Self {
        Self {
            old: [Old::Uses; 2],
            new: [New::Nothing; 2],
            offers: VecDeque::new(),
            replies: VecDeque::new(),
            old_is_alive: true,
            new_is_alive: true,
            new_end_is_closed: false,
            ledger: Ledger::of(&Offers::default()),
        }
    }

    fn check(&self) {
        for (old, new) in self.old.iter().zip(&self.new) {
            let users = usize::from(self.old_is_alive && *old == Old::Uses)
                + usize::from(self.new_is_alive && *new == New::Uses);
            assert!(users <= 1, "two processes use one connection: {self:?}");
        }
        let is_quiet = self.offers.is_empty() && self.replies.is_empty();
        if !is_quiet || !self.old_is_alive || !self.new_is_alive || self.new_end_is_closed {
            return;
        }
        for (old, new) in self.old.iter().zip(&self.new) {
            let is_owned = *old == Old::Uses || *new == New::Uses;
            let is_moving = matches!(new, New::Holds(_));
            // After nonsense no answer is waited for: such a connection ends with the drain.
            assert!(
                is_owned || is_moving || !self.ledger.is_open,
                "no process has it: {self:?}"
            );
        }
    }

    /// Everything that can happen next.
    fn steps(&self) -> Vec<Self> {
        let mut next = Vec::new();
        let mut step = |change: &dyn Fn(&mut Self)| {
            let mut world = self.clone();
            change(&mut world);
            next.push(world);
        };
        if self.old_is_alive {
            for connection in 0..2 {
                if self.old[connection] == Old::Uses && self.ledger.is_open {
                    step(&|world| world.offer(connection));
                }
            }
            if !self.replies.is_empty() {
                step(&Self::read_reply);
            } else if self.new_end_is_closed {
                step(&Self::read_end);
            }
            step(&|world| world.old_is_alive = false);
        }
        if self.new_is_alive && !self.new_end_is_closed {
            if !self.offers.is_empty() {
                step(&Self::receive);
            }
            for connection in 0..2 {
                if let New::Holds(number) = self.new[connection] {
                    step(&|world| world.take(connection, number));
                    step(&|world| world.refuse(connection, number));
                }
            }
            if self.replies.len() < 3 {
                step(&|world| world.say(Reply::Nonsense));
            }
            // What it holds and has not answered for, it closes first.
            step(&Self::close_new_end);
        }
        if self.new_is_alive {
            step(&|world| {
                world.close_new_end();
                world.new_is_alive = false;
            });
        }
        next
    }

    fn offer(&mut self, connection: usize) {
        let mut offers = self.ledger.offers();
        let number = offers.begin(connection).expect("it is open");
        if self.new_end_is_closed {
            offers.not_sent(number);
        } else {
            self.old[connection] = Old::Waits(number);
            self.offers.push_back((connection, number));
        }
        self.ledger = Ledger::of(&offers);
        if self.new_end_is_closed {
            // The failed attempt tells it; without this the model would try forever.
            self.read_end();
        }
    }

    fn read_reply(&mut self) {
        let mut offers = self.ledger.offers();
        match self.replies.pop_front() {
            Some(Reply::Taken(number)) => {
                let connection = offers.answered(number).expect("it was offered");
                self.old[connection] = Old::Left;
            }
            Some(Reply::Refused(number)) => {
                let connection = offers.answered(number).expect("it was offered");
                self.old[connection] = Old::Uses;
                // The connection is served to its end, and not offered again.
                self.new[connection] = New::Nothing;
            }
            _ => offers.distrust(),
        }
        self.ledger = Ledger::of(&offers);
    }

    fn read_end(&mut self) {
        if !self.replies.is_empty() {
            return;
        }
        let mut offers = self.ledger.offers();
        for connection in offers.ended() {
            self.old[connection] = Old::Uses;
        }
        self.ledger = Ledger::of(&offers);
    }

    fn receive(&mut self) {
        if let Some((connection, number)) = self.offers.pop_front() {
            self.new[connection] = New::Holds(number);
        }
    }

    /// Whether the kernel has accepted it. It does not once the old process is gone.
    fn say(&mut self, reply: Reply) {
        if self.old_is_alive {
            self.replies.push_back(reply);
        }
    }

    fn take(&mut self, connection: usize, number: u64) {
        self.say(Reply::Taken(number));
        self.new[connection] = New::Uses;
    }

    fn refuse(&mut self, connection: usize, number: u64) {
        self.say(Reply::Refused(number));
        self.new[connection] = New::Nothing;
    }

    fn close_new_end(&mut self) {
        self.offers.clear();
        self.new_end_is_closed = true;
        for new in &mut self.new {
            if matches!(new, New::Holds(_)) {
                *new = New::Nothing;
            }
        }
    }
}

#[test]
fn whatever_dies_when_no_connection_has_two_owners() {
    let mut seen = BTreeSet::from([World::start()]);
    let mut queue = VecDeque::from([World::start()]);
    let (mut moved, mut returned) = (0, 0);
    while let Some(world) = queue.pop_front() {
        world.check();
        moved += usize::from(world.new == [New::Uses; 2] && world.old == [Old::Left; 2]);
        returned += usize::from(world.new_end_is_closed && world.old.contains(&Old::Uses));
        for next in world.steps() {
            // A connection that was refused may be offered again: so often is enough.
            if next.ledger.next <= 3 && seen.insert(next.clone()) {
                queue.push_back(next);
            }
        }
    }
    assert!(seen.len() > 1_000, "only {} states", seen.len());
    assert!(
        moved > 0 && returned > 0,
        "{moved} moved, {returned} returned"
    );
}

#[test]
fn an_answer_to_nothing_ends_the_offers() {
    let mut offers = Offers::default();
    let number = offers.begin('a').expect("it is open");
    assert_eq!(offers.answered(number + 1), None);
    assert!(!offers.is_open());
    assert_eq!(offers.begin('b'), Err('b'));
    assert_eq!(
        offers.ended(),
        ['a'],
        "the end of the channel says whose it is"
    );
}
