//! In which order a class asks its ancestors for a name.

use std::sync::Arc;

/// One step of the order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ancestor {
    Class(u32),
    /// Outside the project, by its canonical name.
    Outside(Arc<str>),
    Unknown,
}

/// More ancestors than this are a cycle.
const MOST: usize = 64;

/// The class and its ancestors, as Python orders them: children before parents, and bases in the
/// order they are written. Where that is impossible, depth first.
pub(crate) fn of(class: u32, bases: &mut dyn FnMut(u32) -> Vec<Ancestor>) -> Vec<Ancestor> {
    order(Ancestor::Class(class), bases, &mut Vec::new())
}

fn order(
    ancestor: Ancestor,
    bases: &mut dyn FnMut(u32) -> Vec<Ancestor>,
    below: &mut Vec<u32>,
) -> Vec<Ancestor> {
    let Ancestor::Class(class) = ancestor else {
        return vec![ancestor];
    };
    if below.contains(&class) || below.len() > MOST {
        return vec![Ancestor::Unknown];
    }
    below.push(class);
    let direct = bases(class);
    let mut lines: Vec<Vec<Ancestor>> = direct
        .iter()
        .map(|base| order(base.clone(), bases, below))
        .collect();
    below.pop();
    lines.push(direct);
    let mut merged = vec![Ancestor::Class(class)];
    merge(lines, &mut merged);
    merged
}

/// Takes, again and again, the first head that stands in no tail.
fn merge(mut lines: Vec<Vec<Ancestor>>, merged: &mut Vec<Ancestor>) {
    loop {
        lines.retain(|line| !line.is_empty());
        let heads = lines.iter().map(|line| &line[0]);
        let free = heads
            .clone()
            .find(|head| !lines.iter().any(|line| line[1..].contains(head)));
        // No head is free: Python would refuse the class.
        let Some(next) = free.or_else(|| lines.first().map(|line| &line[0])).cloned() else {
            return;
        };
        for line in &mut lines {
            line.retain(|ancestor| *ancestor != next);
        }
        merged.push(next);
        if merged.len() > MOST {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Ancestor, of};

    fn numbers(class: u32, bases: &[(u32, &[u32])]) -> Vec<u32> {
        let order = of(class, &mut |class| {
            let found = bases.iter().find(|(of, _)| *of == class);
            let of_class = found.map_or(&[][..], |(_, bases)| bases);
            of_class.iter().copied().map(Ancestor::Class).collect()
        });
        order
            .into_iter()
            .filter_map(|ancestor| match ancestor {
                Ancestor::Class(class) => Some(class),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn a_diamond_asks_its_top_last() {
        let bases: &[(u32, &[u32])] = &[(4, &[2, 3]), (2, &[1]), (3, &[1])];
        assert_eq!(numbers(4, bases), [4, 2, 3, 1]);
    }

    #[test]
    fn a_circle_ends() {
        let bases: &[(u32, &[u32])] = &[(1, &[2, 3]), (2, &[1]), (3, &[])];
        assert_eq!(numbers(1, bases)[0], 1);
    }
}
