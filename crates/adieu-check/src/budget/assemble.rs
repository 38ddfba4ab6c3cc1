//! From what is started to the tree of its stop.

use super::Budget;
use super::bound::Bound;
use super::calls;
use super::servers::{KnownServer, ServerStep, Unit, servers};
use super::tree::{BudgetNode, Origin, Shape};
use super::verdict::after;
use crate::callgraph::{
    CodeServer, Entity, FileSummary, FnFlags, Hook, Length, Linker, Moment, StopStep, Timed,
    after_run,
};
use crate::config::Config;
use crate::deploy::{Launch, Programs, Start, command, said_at};
use crate::finding::Place;
use crate::role::{self, Role};

/// Functions that call functions are followed this far.
const DEEPEST: usize = 12;
/// Functions that call many, which call many: what lies beyond is assumed to end.
const MOST_CALLS: usize = 2_000;

/// Makes budgets of a project.
pub(crate) struct Assembler<'a> {
    config: &'a Config,
    programs: &'a Programs<'a>,
    pythons: &'a [FileSummary],
    linker: Linker<'a>,
    /// The functions that are being followed, from the outermost.
    way: Vec<u32>,
    /// How many calls of one stop were followed.
    calls: usize,
}

/// The program behind a command.
#[derive(Clone, Copy)]
struct Program<'a> {
    server: &'static str,
    /// The file that it is, or that it serves.
    entry: Option<&'a FileSummary>,
    /// Where the code starts the server; none where the command line does.
    place: Option<(&'a FileSummary, Place)>,
    /// Where it runs; empty where no file says so.
    platform: &'static str,
}

impl<'a> Assembler<'a> {
    pub(crate) fn new(
        config: &'a Config,
        programs: &'a Programs<'a>,
        pythons: &'a [FileSummary],
        linker: Linker<'a>,
    ) -> Assembler<'a> {
        Assembler {
            config,
            programs,
            pythons,
            linker,
            way: Vec::new(),
            calls: 0,
        }
    }

    /// The budgets of what is started, in the order of the files; what nothing is known of is left out.
    pub(crate) fn budgets(&mut self, launches: &[Launch]) -> Vec<Budget> {
        let mut budgets: Vec<Budget> = launches.iter().filter_map(|it| self.budget(it)).collect();
        if budgets.is_empty() {
            budgets = self.undeployed();
        }
        budgets.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
        budgets
    }

    /// The servers in the code of a project that has no file to start them.
    fn undeployed(&mut self) -> Vec<Budget> {
        let start = Start::default();
        let pythons: Vec<Program<'a>> = self
            .product(&start)
            .filter_map(|summary| {
                let CodeServer { server, place } = *summary.facts.servers.first()?;
                Some((summary, server, place))
            })
            .map(|(summary, server, place)| Program {
                server,
                entry: Some(summary),
                place: Some((summary, place)),
                platform: "",
            })
            .collect();
        let rusts = self.programs.rust_servers().into_iter();
        let rusts = rusts.map(|(summary, CodeServer { server, place })| Program {
            server,
            entry: None,
            place: Some((summary, place)),
            platform: "",
        });
        let programs: Vec<Program<'a>> = pythons.into_iter().chain(rusts).collect();
        programs
            .into_iter()
            .filter_map(|program| {
                let (summary, place) = program.place?;
                Some(Budget {
                    name: program.server.to_owned(),
                    path: summary.path.clone(),
                    line: place.line,
                    command: String::new(),
                    stop: self.of_server(program, &start),
                    patience: None,
                })
            })
            .collect()
    }

    fn budget(&mut self, launch: &Launch) -> Option<Budget> {
        let words = command::inner(&launch.start.words);
        let stop = self.stop(launch)?;
        Some(Budget {
            name: launch.name.clone(),
            path: launch.at.path.clone(),
            line: launch.at.line,
            command: words.join(" "),
            stop: after(launch.before.clone(), stop),
            patience: Some(launch.patience.clone()),
        })
    }

    fn stop(&mut self, launch: &Launch) -> Option<BudgetNode> {
        let start = &launch.start;
        if let Some(seconds) = self.config.grace_seconds {
            let mut node = BudgetNode::new(
                "the program",
                self.settings_origin(),
                Shape::Takes(Bound::seconds(seconds)),
            );
            node.setting = Some("grace-seconds".to_owned());
            return Some(node);
        }
        if let Some(program) = self.program(launch) {
            return Some(self.of_server(program, start));
        }
        // A program with its own timeout on the command line, which is trusted to keep to it.
        let own = start.own(None, self.programs)?;
        let origin = match own.step {
            Some(step) => Origin::Said {
                path: step.path,
                place: step.place,
            },
            None => said_at(start.at.clone().unwrap_or_else(|| launch.at.clone())),
        };
        let mut node = BudgetNode::new(
            "the program, as long as its own timeout",
            origin,
            Shape::Takes(Bound::seconds(own.seconds)),
        );
        node.setting = Some("its grace".to_owned());
        Some(node)
    }

    fn settings_origin(&self) -> Origin {
        match &self.config.source {
            Some(path) => Origin::Said {
                path: crate::walk::shown(path).into(),
                place: Place::TOP,
            },
            None => Origin::Default {
                of: "the settings".to_owned(),
                at: None,
            },
        }
    }

    /// The server that a command starts: by its name, or in the code that it runs.
    fn program(&self, launch: &Launch) -> Option<Program<'a>> {
        let start = &launch.start;
        let platform = launch.patience.platform;
        let words = command::inner(&start.words);
        if let Some(name) = command::server(words).or_else(|| is_dramatiq(words)) {
            let name = match name {
                "celery" if !words.iter().any(|word| word == "worker") => return None,
                "celery" if start.stops_quickly() => "celery-quick",
                name => name,
            };
            let (server, _) = servers().get_key_value(name)?;
            return Some(Program {
                server,
                entry: self.programs.application(start),
                place: None,
                platform,
            });
        }
        if let Some(entry) = self.programs.code(start) {
            let (summary, CodeServer { server, place }) = self.server_of(entry, start)?;
            return Some(Program {
                server,
                entry: Some(entry),
                place: Some((summary, place)),
                platform,
            });
        }
        let (summary, CodeServer { server, place }) = self.programs.rust_server(start)?;
        Some(Program {
            server,
            entry: None,
            place: Some((summary, place)),
            platform,
        })
    }

    /// The one server that a file starts, or that the project does where the file starts none.
    fn server_of(
        &self,
        entry: &'a FileSummary,
        start: &Start,
    ) -> Option<(&'a FileSummary, CodeServer)> {
        if let Some(server) = entry.facts.servers.first() {
            return Some((entry, *server));
        }
        let mut all = self
            .product(start)
            .filter_map(|summary| Some((summary, *summary.facts.servers.first()?)));
        match (all.next(), all.next()) {
            (Some(only), None) => Some(only),
            _ => None,
        }
    }

    /// The files that may be part of what is started.
    fn product(&self, start: &Start) -> impl Iterator<Item = &'a FileSummary> + use<'a> {
        let folder = start.folder.clone().unwrap_or_default();
        self.pythons.iter().filter(move |summary| {
            crate::deploy::is_below(&summary.path, &folder)
                && role::of(&summary.path) == Role::Product
        })
    }

    fn of_server(&mut self, program: Program<'a>, start: &Start) -> BudgetNode {
        let Some(server) = servers().get(program.server) else {
            return BudgetNode::new(program.server, Origin::Parts, Shape::Series(Vec::new()));
        };
        self.calls = 0;
        let mut parts = Vec::new();
        for step in &server.steps {
            let hooks = match step.hooks {
                Some(moment) => self.hooks(moment, program, start),
                None => Vec::new(),
            };
            if step.hooks.is_some() {
                if hooks.is_empty() {
                    continue;
                }
                parts.push(with_hooks(step, server, hooks, program));
            } else if step.setting {
                parts.push(self.with_setting(step, server, program, start));
            } else {
                let bound = step.default_bound(program.platform).unwrap_or_default();
                parts.push(BudgetNode::new(
                    &*step.what,
                    default_of(server),
                    Shape::Takes(bound),
                ));
            }
            if step.threads
                && let Some(handler) = self.thread_handler(start)
            {
                parts.push(handler);
            }
        }
        BudgetNode::new(program.server, Origin::Parts, Shape::Series(parts))
    }

    /// A request handler that is not a coroutine: it runs in a thread, and nothing can cancel it.
    fn thread_handler(&self, start: &Start) -> Option<BudgetNode> {
        self.product(start).find_map(|summary| {
            let is_pooled = |it: &crate::callgraph::Function| {
                it.flags.has(FnFlags::IN_THREAD) && it.flags.has(FnFlags::HANDLER)
            };
            let at = summary.functions.iter().position(is_pooled)?;
            let handler = &summary.functions[at];
            let origin = Origin::Assumed {
                that: "handlers that run in threads end by themselves: nothing cancels them"
                    .to_owned(),
                path: summary.path.clone(),
                place: summary
                    .timed
                    .get(&(at as u32))
                    .map_or(Place::TOP, |timed| timed.place),
            };
            let what = format!(
                "`{}`, which runs in a thread, and others like it",
                handler.name
            );
            Some(BudgetNode::new(what, origin, Shape::Takes(Bound::UNCLEAR)))
        })
    }

    /// A step whose length is a setting: from the command line, the environment, the code, or the default.
    fn with_setting(
        &self,
        step: &ServerStep,
        server: &KnownServer,
        program: Program<'a>,
        start: &Start,
    ) -> BudgetNode {
        let (bound, origin) = self.setting(server, program, start).unwrap_or_else(|| {
            let bound = step.default_bound(program.platform).unwrap_or_default();
            (bound, default_of(server))
        });
        // A default is to be changed where the server is started.
        let origin = match (origin, program.place, &start.at) {
            (Origin::Default { of, .. }, Some((summary, place)), _) => Origin::Default {
                of,
                at: Some((summary.path.clone(), place.line)),
            },
            (Origin::Default { of, .. }, None, Some(spot)) => Origin::Default {
                of,
                at: Some((spot.path.clone(), spot.line)),
            },
            (origin, ..) => origin,
        };
        let mut node = BudgetNode::new(&*step.what, origin, Shape::Takes(bound));
        let name = match (program.place, &server.flag) {
            (None, Some(flag)) => flag,
            _ => &server.setting,
        };
        node.setting = Some(name.clone());
        node
    }

    fn setting(
        &self,
        server: &KnownServer,
        program: Program<'a>,
        start: &Start,
    ) -> Option<(Bound, Origin)> {
        let by_flag = |words: &[String]| {
            let flag = server.flag.as_deref()?;
            command::value_of(words, &[flag]).map(|value| read(value, server.unit))
        };
        let at = || start.at.clone().map_or(default_of(server), said_at);
        if let Some(bound) = by_flag(&start.words) {
            return Some((bound, at()));
        }
        let variable = start
            .variables
            .iter()
            .find(|it| Some(&it.name) == server.variable.as_ref());
        if let Some(variable) = variable {
            let origin = variable.at.clone().map_or_else(at, said_at);
            if program.server != "gunicorn" {
                return Some((read(Some(&variable.value), server.unit), origin));
            }
            if let Some(bound) = by_flag(&command::split(&variable.value)) {
                return Some((bound, origin));
            }
        }
        let of_code = match program.place {
            Some((summary, _)) => said_in(summary, program.server),
            None => self.programs.said(start, program.server),
        };
        let (path, grace) = of_code?;
        let bound = grace.seconds.map_or(Bound::UNCLEAR, Bound::seconds);
        Some((
            bound,
            Origin::Said {
                path,
                place: grace.place,
            },
        ))
    }

    /// The functions that a program has its server call at a moment: those of the file that is started, or of all files
    /// where that one has none.
    fn hooks(&mut self, moment: Moment, program: Program<'a>, start: &Start) -> Vec<BudgetNode> {
        let of = |summary: &'a FileSummary| -> Vec<(&'a FileSummary, &'a Hook)> {
            let hooks = summary.facts.hooks.iter();
            hooks
                .filter(|hook| hook.moment == moment)
                .map(|hook| (summary, hook))
                .collect()
        };
        let mut found = program.entry.map(of).unwrap_or_default();
        if found.is_empty() {
            found = self.product(start).flat_map(of).collect();
        }
        found.dedup_by(|a, b| a.1.path == b.1.path);
        found
            .into_iter()
            .filter_map(|(summary, hook)| self.hook(summary, hook))
            .collect()
    }

    fn hook(&mut self, summary: &'a FileSummary, hook: &Hook) -> Option<BudgetNode> {
        let Entity::Function(number) = self.linker.resolve(&hook.path) else {
            // A function of a library, or one that cannot be followed.
            let origin = Origin::Assumed {
                that: "it ends by itself".to_owned(),
                path: summary.path.clone(),
                place: hook.place,
            };
            return Some(BudgetNode::new(
                "a function that cannot be followed",
                origin,
                Shape::Takes(Bound::UNCLEAR),
            ));
        };
        let (file, function) = self.linker.function(number);
        let timed = self.timed(number);
        let steps = match hook.yields {
            // Without a `yield` of its own all of it runs at the start.
            true => after_run(&timed.steps).unwrap_or_default(),
            false => timed.steps.clone(),
        };
        self.way = vec![number];
        let parts = self.nodes(file, &steps);
        let origin = Origin::Said {
            path: file.path.clone(),
            place: timed.place,
        };
        Some(BudgetNode::new(
            format!("`{}`", function.name),
            origin,
            Shape::Series(parts),
        ))
    }

    fn timed(&self, number: u32) -> Timed {
        let (file, _) = self.linker.function(number);
        let index = number
            - self
                .linker
                .function_number(self.linker.summary_of(number), 0);
        file.timed.get(&index).cloned().unwrap_or(Timed {
            place: Place::TOP,
            steps: Vec::new(),
        })
    }

    fn nodes(&mut self, file: &'a FileSummary, steps: &[StopStep]) -> Vec<BudgetNode> {
        steps
            .iter()
            .filter_map(|step| self.node(file, step))
            .collect()
    }

    fn node(&mut self, file: &'a FileSummary, step: &StopStep) -> Option<BudgetNode> {
        let said = |place: &Place| Origin::Said {
            path: file.path.clone(),
            place: *place,
        };
        match step {
            StopStep::Takes {
                length,
                what,
                place,
            } => {
                let origin = match length {
                    Length::Unclear => ends_by_itself(file, *place),
                    _ => said(place),
                };
                Some(BudgetNode::new(
                    &**what,
                    origin,
                    Shape::Takes(calls::bound(*length)),
                ))
            }
            StopStep::Within {
                limit,
                what,
                place,
                inner,
            } => {
                let parts = self.nodes(file, inner);
                let shape = Shape::Within(calls::bound(*limit), parts);
                Some(BudgetNode::new(format!("`{what}`"), said(place), shape))
            }
            StopStep::Times {
                count,
                is_limited,
                what,
                place,
                inner,
            } => {
                let parts = self.nodes(file, inner);
                if parts.iter().all(|part| part.bound() == Bound::ZERO) {
                    return None;
                }
                let shape = if *is_limited || count.is_some() {
                    Shape::Times(*count, parts)
                } else {
                    Shape::Takes(Bound::UNLIMITED)
                };
                let what = match count {
                    Some(count) => format!("{count} times: {what}"),
                    None => format!("as long as `{what}`"),
                };
                Some(BudgetNode::new(what, said(place), shape))
            }
            StopStep::OneOf(ways) => {
                let ways: Vec<BudgetNode> = ways
                    .iter()
                    .map(|way| {
                        BudgetNode::new(
                            "one way",
                            Origin::Parts,
                            Shape::Series(self.nodes(file, way)),
                        )
                    })
                    .filter(|way| !way.parts().is_empty())
                    .collect();
                longest("one of several ways", ways)
            }
            StopStep::Together { parts, .. } => {
                let parts: Vec<BudgetNode> = parts
                    .iter()
                    .map(|part| {
                        BudgetNode::new(
                            "at once",
                            Origin::Parts,
                            Shape::Series(self.nodes(file, part)),
                        )
                    })
                    .filter(|part| !part.parts().is_empty())
                    .collect();
                longest("all of these at once", parts)
            }
            StopStep::Calls {
                path,
                what,
                limits,
                awaited,
                place,
            } => self.call(file, (path, what), limits, (*awaited, *place)),
            StopStep::Runs => None,
        }
    }

    fn call(
        &mut self,
        file: &'a FileSummary,
        (path, what): (&str, &str),
        limits: &[(Option<Box<str>>, Length)],
        (awaited, place): (bool, Place),
    ) -> Option<BudgetNode> {
        let assumed = |what: String| {
            let origin = ends_by_itself(file, place);
            Some(BudgetNode::new(what, origin, Shape::Takes(Bound::UNCLEAR)))
        };
        let waits = || format!("`{}{what}`", if awaited { "await " } else { "" });
        match self.linker.resolve(path) {
            Entity::Function(number) => {
                let flags = self.linker.flags(number);
                // A coroutine that nothing awaits does not run here.
                if flags.has(FnFlags::ASYNC) && !awaited {
                    return None;
                }
                self.calls += 1;
                let is_too_much = self.way.len() == DEEPEST || self.calls > MOST_CALLS;
                if is_too_much || self.way.contains(&number) {
                    return assumed(waits());
                }
                let steps = self.timed(number).steps;
                let (callee, function) = self.linker.function(number);
                self.way.push(number);
                let parts = self.nodes(callee, &steps);
                self.way.pop();
                let origin = Origin::Said {
                    path: file.path.clone(),
                    place,
                };
                (!parts.is_empty()).then(|| {
                    BudgetNode::new(format!("`{}`", function.name), origin, Shape::Series(parts))
                })
            }
            Entity::External(outside) => match calls::known(&outside, limits) {
                Some(known) if known.bound == Bound::ZERO => None,
                Some(known) => {
                    let origin = Origin::Said {
                        path: file.path.clone(),
                        place,
                    };
                    let mut node = BudgetNode::new(waits(), origin, Shape::Takes(known.bound));
                    node.detail = Some(known.waits_for);
                    Some(node)
                }
                None if awaited => assumed(waits()),
                None => None,
            },
            _ if awaited => assumed(waits()),
            _ => None,
        }
    }
}

/// A step that is as long as the hooks inside it, or cut off.
fn with_hooks(
    step: &ServerStep,
    server: &KnownServer,
    hooks: Vec<BudgetNode>,
    program: Program<'_>,
) -> BudgetNode {
    match step.default_bound(program.platform) {
        Some(limit) => {
            BudgetNode::new(&*step.what, default_of(server), Shape::Within(limit, hooks))
        }
        None => BudgetNode::new(&*step.what, Origin::Parts, Shape::Series(hooks)),
    }
}

fn longest(what: &str, mut parts: Vec<BudgetNode>) -> Option<BudgetNode> {
    match parts.len() {
        0 => None,
        1 => parts.pop(),
        _ => Some(BudgetNode::new(what, Origin::Parts, Shape::Longest(parts))),
    }
}

fn ends_by_itself(file: &FileSummary, place: Place) -> Origin {
    Origin::Assumed {
        that: "it ends by itself".to_owned(),
        path: file.path.clone(),
        place,
    }
}

fn default_of(server: &KnownServer) -> Origin {
    Origin::Default {
        of: server.seen.clone(),
        at: None,
    }
}

/// The value of a flag or a variable.
fn read(value: Option<&str>, unit: Unit) -> Bound {
    let seconds = value.and_then(|value| match unit {
        Unit::Millis => Some(value.parse::<u64>().ok()?.div_ceil(1_000)),
        Unit::Seconds => command::seconds(value),
    });
    seconds.map_or(Bound::UNCLEAR, Bound::seconds)
}

/// What the code of a file says of a server's setting.
fn said_in(
    summary: &FileSummary,
    server: &str,
) -> Option<(std::sync::Arc<str>, crate::callgraph::CodeGrace)> {
    let server = if server == "adieu" {
        "the service"
    } else {
        server
    };
    let grace = summary
        .facts
        .graces
        .iter()
        .find(|grace| grace.server == server)?;
    Some((summary.path.clone(), *grace))
}

fn is_dramatiq(words: &[String]) -> Option<&'static str> {
    let first = words.first()?;
    ["dramatiq", "taskiq"]
        .into_iter()
        .find(|name| command::program(first) == *name)
}
