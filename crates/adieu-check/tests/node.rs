//! What is said of programs for Node.js: each rule beside what is right and looks alike.

mod support;

use support::Project;

const SERVER: &str = "import http from 'node:http';\nconst server = http.createServer(answer);\nserver.listen(80);\n";

/// What is said of a server with these lines, which start at line 4.
fn of_server(rest: &str) -> Vec<String> {
    Project::new()
        .file("server.ts", &format!("{SERVER}{rest}\n"))
        .severities()
}

fn of(name: &str, text: &str) -> Vec<String> {
    Project::new().file(name, text).severities()
}

#[test]
fn a_server_that_no_signal_closes() {
    for (line, text) in [
        (3, SERVER),
        (1, "require('http').createServer(answer).listen(80);"),
        (
            2,
            "const express = require('express'); const app = express();\napp.listen(80);",
        ),
        (
            2,
            "import Koa from 'koa'; const app = new Koa();\napp.listen(80);",
        ),
        (
            2,
            "import Fastify from 'fastify'; const app = Fastify({ logger: true });\nawait app.listen({ port: 80 });",
        ),
        (
            1,
            "import { serve } from '@hono/node-server'; serve({ fetch });",
        ),
        (
            3,
            "import express from 'express';\nconst app = express();\nfunction start() { app.listen(80); }\nstart();",
        ),
        (
            3,
            "import express from 'express';\nconst app = express();\n(async () => { app.listen(80); })();",
        ),
        (
            3,
            "import express from 'express';\nconst app = express();\nconnect().then(() => { app.listen(80); });",
        ),
        (
            3,
            "import express from 'express';\nconst app = express();\nif (require.main === module) { app.listen(80); }",
        ),
    ] {
        assert_eq!(
            of("server.ts", text),
            [format!("server.ts:{line} ADT101 warning")],
            "{text}"
        );
        assert_eq!(
            of("server.js", text),
            [format!("server.js:{line} ADT101 warning")],
            "{text}"
        );
    }
    for text in [
        // Its caller may close it.
        "import express from 'express';\nexport function start() { const app = express(); return app.listen(80); }",
        "import express from 'express';\nclass Web { app = express(); start() { this.app.listen(80); } }",
        "store.listen(80);",
        "import http from 'http';\nconst server = http.createServer(callback);\nserver.listen(0);\nfunction callback() { server.close(); }",
        "import { createTerminus } from '@godaddy/terminus';\nimport http from 'http';\nhttp.createServer(a).listen(80);",
    ] {
        assert!(
            of("server.ts", text).is_empty(),
            "{text}: {:?}",
            of("server.ts", text)
        );
    }
}

#[test]
fn an_application_of_another_file_needs_a_framework() {
    let text = "import app from './app';\napp.listen(80);\n";
    let project = |package: &str| {
        Project::new()
            .file("package.json", package)
            .file("index.ts", text)
            .severities()
    };
    assert_eq!(
        project("{ \"dependencies\": { \"express\": \"5\" } }"),
        ["index.ts:2 ADT101 warning"]
    );
    assert!(project("{ \"dependencies\": { \"react\": \"19\" } }").is_empty());
    assert!(project("{ not json").is_empty());
}

#[test]
fn handlers_are_looked_for_in_the_packages_that_are_used() {
    let handler = "export const stop = (s) => process.on('SIGTERM', () => s.close());\n";
    let project = |dependencies: &str, name: &str| {
        Project::new()
            .file(
                "apps/web/package.json",
                &format!("{{ \"name\": \"web\", \"dependencies\": {{ {dependencies} }} }}"),
            )
            .file("apps/web/server.ts", SERVER)
            .file("lib/package.json", "{ \"name\": \"lib\" }")
            .file(name, handler)
            .severities()
    };
    let found = ["apps/web/server.ts:3 ADT101 warning"];
    assert!(project("\"lib\": \"*\"", "lib/stop.ts").is_empty());
    assert_eq!(project("\"other\": \"*\"", "lib/stop.ts"), found);
    assert!(project("", "apps/web/stop.ts").is_empty());
    assert_eq!(project("", "apps/web/stop.test.ts"), found);
    assert!(project("\"http-graceful-shutdown\": \"*\"", "lib/stop.ts").is_empty());
    assert!(project("\"electron\": \"*\"", "lib/stop.ts").is_empty());
    // To send a signal is not to handle it.
    let sends = Project::new()
        .file("server.ts", SERVER)
        .file("child.ts", "child.kill('SIGTERM'); process.exit(0);\n");
    assert_eq!(sends.severities(), ["server.ts:3 ADT101 warning"]);
}

#[test]
fn a_tool_for_a_terminal_gives_notes() {
    assert_eq!(
        of("serve.js", &format!("#!/usr/bin/env node\n{SERVER}")),
        ["serve.js:4 ADT101 note"]
    );
    assert_eq!(
        of(
            "serve.ts",
            &format!("import {{ program }} from 'commander';\n{SERVER}")
        ),
        ["serve.ts:4 ADT101 note"]
    );
    assert_eq!(
        of("examples/serve.ts", SERVER),
        ["examples/serve.ts:3 ADT101 note"]
    );
    assert!(of("e2e/serve.ts", SERVER).is_empty());
    assert!(of("serve.spec.ts", SERVER).is_empty());
}

#[test]
fn an_exit_waits_until_the_server_is_closed() {
    for (line, rest) in [
        (
            4,
            "process.on('SIGTERM', () => { server.close(); process.exit(0); });",
        ),
        (
            4,
            "process.once('SIGTERM', async () => { log(); server.close(() => log()); process.exit(0); });",
        ),
        (
            5,
            "process.on('SIGTERM', stop);\nfunction stop() { server.close(); process.exit(0); }",
        ),
        (
            5,
            "process.on('SIGTERM', () => stop('SIGTERM'));\nconst stop = (why: string) => { server.close(); process.exit(0); };",
        ),
        (
            4,
            "for (const s of ['SIGINT', 'SIGTERM']) process.on(s, () => { server.close(); process.exit(0); });",
        ),
        (
            4,
            "['SIGINT', 'SIGTERM'].forEach((s) => process.on(s, () => { server.close(); process.exit(0); }));",
        ),
    ] {
        assert_eq!(
            of_server(rest),
            [format!("server.ts:{line} ADT102 error")],
            "{rest}"
        );
    }
    for rest in [
        "process.on('SIGTERM', () => { server.close(() => process.exit(0)); setTimeout(f, 9); });",
        "process.on('SIGTERM', async () => { await close(server); process.exit(0); });",
        "process.on('SIGTERM', async () => { server.close(); await within(timeout); process.exit(0); });",
        "process.on('SIGTERM', () => { setTimeout(() => process.exit(1), 5000); server.close(); });",
        "process.on('SIGTERM', () => { if (down) { process.exit(1); } server.close(); setTimeout(f, 9); });",
    ] {
        assert!(of_server(rest).is_empty(), "{rest}: {:?}", of_server(rest));
    }
}

#[test]
fn a_handler_that_only_exits_closes_nothing() {
    for (line, rest) in [
        (4, "process.on('SIGTERM', () => process.exit(0));"),
        (4, "process.on('SIGTERM', process.exit);"),
        (
            4,
            "process.on('SIGTERM', () => { console.log('bye'); logger.info('bye'); process.exit(0); });",
        ),
        (
            5,
            "process.on('SIGTERM', bye);\nfunction bye() { process.exit(0); }",
        ),
    ] {
        assert_eq!(
            of_server(rest),
            [format!("server.ts:{line} ADT103 warning")],
            "{rest}"
        );
    }
    assert!(of_server("process.on('SIGTERM', () => { shutdown(); process.exit(0); });").is_empty());
    assert!(
        of_server("process.on('SIGTERM', async () => { await db.end(); process.exit(0); });")
            .is_empty()
    );
    // Nothing listens.
    assert!(of("job.ts", "process.on('SIGTERM', () => process.exit(0));").is_empty());
}

#[test]
fn a_close_has_a_limit() {
    let text = [
        SERVER,
        "process.on('SIGTERM', () => { server.close(() => process.exit(0)); });\n",
    ]
    .concat();
    let project = |engines: &str| {
        Project::new()
            .file(
                "package.json",
                &format!("{{ \"engines\": {{ \"node\": \"{engines}\" }} }}"),
            )
            .file("server.ts", &text)
            .severities()
    };
    assert_eq!(project(">=18"), ["server.ts:4 ADT104 warning"]);
    assert_eq!(project(">=20"), ["server.ts:4 ADT104 note"]);
    assert_eq!(of("server.ts", &text), ["server.ts:4 ADT104 note"]);
    for limit in [
        "setTimeout(() => process.exit(1), 9000);",
        "server.closeAllConnections();",
    ] {
        let rest = format!(
            "process.on('SIGTERM', () => {{ server.close(() => process.exit(0)); {limit} }});"
        );
        assert!(of_server(&rest).is_empty(), "{limit}");
    }
}

#[test]
fn nest_is_told_to_handle_signals() {
    let text = |line: &str| {
        format!(
            "import {{ NestFactory }} from '@nestjs/core';\nasync function bootstrap() {{\n  const app = await NestFactory.create<A>(Module);\n{line}\n  await app.listen(3000);\n}}\nbootstrap();\n"
        )
    };
    assert_eq!(of("main.ts", &text("")), ["main.ts:5 ADT105 warning"]);
    assert!(of("main.ts", &text("  app.enableShutdownHooks();")).is_empty());
    assert!(
        of(
            "main.ts",
            &text("  process.on('SIGTERM', () => app.close());")
        )
        .is_empty()
    );
    let hooks = Project::new().file("main.ts", &text("")).file(
        "db.ts",
        "export class Db implements OnModuleDestroy { onModuleDestroy() {} }\n",
    );
    assert_eq!(hooks.severities(), ["main.ts:5 ADT105 error"]);
    // A script: nothing listens.
    let script = "import { NestFactory } from '@nestjs/core';\nasync function seed() { const app = await NestFactory.create(M); await app.close(); }\nseed();\n";
    assert!(of("seed.ts", script).is_empty());
}

#[test]
fn signals_that_are_handled() {
    assert_eq!(
        of("a.mjs", "process.on('SIGSTOP', stop);"),
        ["a.mjs:1 ADT201 error"]
    );
    assert!(of("a.mjs", "child.on('SIGKILL', stop);").is_empty());
    assert_eq!(
        of_server("process.on('SIGINT', () => { server.close(); });"),
        ["server.ts:4 ADT202 warning"],
        "and no second finding for the server"
    );
    assert!(of("tool.ts", "process.on('SIGINT', () => { stop(); });").is_empty());
    let both = "process.on('SIGINT', stop);\nprocess.on('SIGTERM', stop);";
    assert!(of_server(both).is_empty());
}

#[test]
fn a_handler_stops_something() {
    assert_eq!(
        of_server("process.on('SIGTERM', () => { console.log('bye'); });"),
        ["server.ts:4 ADT203 warning"]
    );
    for rest in [
        "process.on('SIGTERM', () => { stopping = true; });",
        "process.on('SIGTERM', () => { controller.abort(); });",
        "process.on('SIGTERM', () => { throw new Error('bye'); });",
        "process.on('SIGTERM', given);",
    ] {
        assert!(of_server(rest).is_empty(), "{rest}: {:?}", of_server(rest));
    }
}

#[test]
fn comments_hold_here_too() {
    let told = |comment: &str| {
        let text = SERVER.replace("server.listen", &format!("{comment}\nserver.listen"));
        Project::new().file("server.ts", &text).told()
    };
    assert!(
        told(concat!(
            "//",
            " adieu: ignore[ADT101] the balancer drains it"
        ))
        .is_empty()
    );
    assert_eq!(
        told(concat!("//", " adieu: ignore[ADT102] nothing")),
        ["server.ts:3 ADX101", "server.ts:4 ADT101"]
    );
}
