//! Whatever stands in a file: a clear word, and the rest is still checked.

mod support;

use proptest::prelude::*;
use support::Project;

const SOUND: &str = "import time\nasync def f():\n    time.sleep(1)\n";

#[test]
fn bytes_that_are_no_text_are_named() {
    let project = Project::new()
        .bytes("latin.py", b"x = 1\ny = '\xe9'\n")
        .file("app.py", SOUND);
    insta::assert_snapshot!(project.text(), @r"
    app.py:3:5: ADP101 `time.sleep` blocks the event loop; use `await asyncio.sleep(...)`
    latin.py:2:6: ADX002 is not UTF-8 from here on and was not checked
    ");
}

#[test]
fn a_huge_file_is_left_out() {
    let project = Project::new()
        .bytes("huge.py", &vec![b'#'; 100 * 1024 * 1024])
        .file("app.py", SOUND);
    insta::assert_snapshot!(project.text(), @r"
    app.py:3:5: ADP101 `time.sleep` blocks the event loop; use `await asyncio.sleep(...)`
    huge.py:1:1: ADX002 is 100 MB large and was not checked (the limit is 8 MB); exclude it if it is generated
    ");
}

#[cfg(unix)]
#[test]
fn a_symlink_loop_is_not_followed() {
    let project = Project::new().file("app.py", SOUND);
    std::os::unix::fs::symlink(project.path(), project.path().join("loop")).expect("a link");
    assert_eq!(project.told(), ["app.py:3 ADP101"]);
    let outcome = project.outcome();
    assert_eq!(outcome.files, 1);
    assert!(outcome.notices.is_empty(), "{:?}", outcome.notices);
}

#[test]
fn nesting_that_no_stack_survives_is_refused() {
    let project = Project::new()
        .file("deep.py", &format!("x = {}\n", "(".repeat(100_000)))
        .file("minus.py", &format!("x = {}1\n", "-".repeat(100_000)))
        .file("sum.py", &format!("x = {}1\n", "1+".repeat(100_000)))
        .file("nots.py", &format!("x = {}1\n", "not ".repeat(100_000)))
        .file(
            "deep.rs",
            &format!("fn f() {{ {} }}\n", "(".repeat(100_000)),
        )
        .file(
            "chain.rs",
            &format!("fn f() {{ x{}; }}\n", ".a()".repeat(100_000)),
        )
        .file(
            "elses.rs",
            &format!("fn f() {{ {} {{}} }}\n", "if a {} else ".repeat(100_000)),
        )
        .file("compose.yaml", &"[".repeat(100_000))
        .file("package.json", &"[".repeat(100_000))
        .file("app.py", SOUND);
    let codes = project.codes();
    assert_eq!(codes, ["ADP101", "ADX001"]);
}

/// What stands innermost is found: the nesting is walked, not refused.
#[test]
fn nesting_just_below_the_limit_is_walked() {
    let project = Project::new()
        .file(
            "Cargo.toml",
            "[package]\nname = \"app\"\nversion = \"0.1.0\"\n",
        )
        .file(
            "sum.py",
            &format!(
                "import time\nasync def f():\n    x = time.sleep(1){}\n",
                "+1".repeat(3_500)
            ),
        )
        .file(
            "brackets.py",
            &format!(
                "import time\nasync def f():\n    x = {}time.sleep(1){}\n",
                "(".repeat(3_900),
                ")".repeat(3_900)
            ),
        )
        .file(
            "src/blocks.rs",
            &format!(
                "async fn f() {} std::thread::sleep(d); {}\n",
                "{".repeat(3_900),
                "}".repeat(3_900)
            ),
        )
        .file(
            "src/chain.rs",
            &format!(
                "async fn f() {{ std::thread::sleep(d){}; }}\n",
                ".a()".repeat(1_900)
            ),
        );
    assert_eq!(
        project.told(),
        [
            "brackets.py:3 ADP101",
            "src/blocks.rs:1 ADR101",
            "src/chain.rs:1 ADR101",
            "sum.py:3 ADP101",
        ]
    );
}

/// Go and TypeScript are walked without recursion: text of any depth is read, and broken text as far as it goes.
#[test]
fn nesting_of_any_depth_is_walked_in_go_and_typescript() {
    let exit = |what: &str| format!("process.on('SIGKILL', () => {what});\n");
    let project = Project::new()
        .file(
            "deep.go",
            &format!(
                "package main\nfunc f() {{ x = {}1{} }}\nfunc g() {{ go func() {{ os.Exit(1) }}() }}\n",
                "(".repeat(100_000),
                ")".repeat(100_000)
            ),
        )
        .file(
            "blocks.go",
            &format!(
                "package main\nimport \"os\"\nfunc f() {} go func() {{ os.Exit(1) }}() {}\n",
                "{".repeat(30_000),
                "}".repeat(30_000)
            ),
        )
        .file("open.go", &format!("package main\n// os.Exit\nfunc f() {{ {}", "if a {".repeat(50_000)))
        .file("deep.ts", &exit(&format!("{}1{}", "(\n".repeat(50_000), ")\n".repeat(50_000))))
        .file("open.ts", &format!("{}{}", exit("0"), "[\n".repeat(100_000)))
        .file("types.ts", &format!("{}a<b>({}", exit("0"), "a<b>(\n".repeat(20_000)))
        .file("tags.jsx", &format!("{}{}", exit("0"), "<a>{\n".repeat(20_000)))
        .file("sum.mjs", &format!("{}x = 1{}", exit("0"), " + 1\n".repeat(50_000)));
    assert_eq!(
        project.told(),
        [
            "blocks.go:3 ADG302",
            "deep.ts:1 ADT201",
            "open.ts:1 ADT201",
            "sum.mjs:1 ADT201",
            "tags.jsx:1 ADT201",
            "types.ts:1 ADT201",
        ]
    );
}

/// Each call asks where its variable comes from, over all that stands before it.
#[test]
fn text_that_is_made_to_take_long_is_given_up() {
    let go = |calls: usize| {
        format!(
            "package main\nimport (\"context\"; \"net/http\")\nfunc f(s *http.Server) {{\nctx := context.Background()\n{}}}\n",
            "s.Shutdown(ctx)\n".repeat(calls)
        )
    };
    let calls = |name: &str, other: &str| {
        format!(
            "function {name}() {{\n{}}}\n",
            format!("{other}();\n").repeat(1_000)
        )
    };
    let ts = format!(
        "import http from 'http';\nconst s = http.createServer(x);\nfunction a() {{ s.listen(80); }}\n{}{}{}{}",
        calls("b", "a"),
        calls("c", "b"),
        calls("d", "c"),
        calls("e", "d")
    );
    let project = Project::new()
        .file("few.go", &go(2))
        .file("many.go", &go(5_000))
        .file("calls.ts", &ts);
    assert_eq!(project.told(), ["few.go:5 ADG103", "few.go:6 ADG103"]);
}

#[test]
fn bundles_and_generated_files_are_left_out() {
    let kill = "process.on('SIGKILL', () => 0);\n";
    let go = "package main\nimport \"os\"\nfunc f() { go func() { os.Exit(1) }() }\n";
    let project = Project::new()
        .file("a.min.js", kill)
        .file("a.d.ts", kill)
        .file("bundle.js", &format!("{kill}{}", "a();".repeat(1_000)))
        .file("huge.js", &format!("{kill}{}", "a();\n".repeat(250_000)))
        .file("larger.js", &"// x\n".repeat(2_000_000))
        .file("node_modules/a/index.js", kill)
        .file("vendor/a/index.js", kill)
        .file("vendor/a/a.go", go)
        .file(
            "made.go",
            &format!("// Code generated by a tool. DO NOT EDIT.\n\n{go}"),
        )
        .file("tool.go", &format!("//go:build ignore\n\n{go}"));
    assert!(project.codes().is_empty(), "{:?}", project.told());
    assert_eq!(project.file("b.js", kill).told(), ["b.js:1 ADT201"]);
}

#[test]
fn aliases_of_aliases_do_not_grow_without_end() {
    let mut text = String::from("services:\n  a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let item = format!("*a{}", level - 1);
        text.push_str(&format!(
            "  a{level}: &a{level} [{}]\n",
            vec![item; 9].join(", ")
        ));
    }
    let project = Project::new().file("compose.yaml", &text);
    assert_eq!(project.codes(), ["ADX001"]);
}

#[test]
fn templates_are_said_and_not_guessed() {
    let project = Project::new()
        .file(
            "chart/templates/web.yaml",
            "apiVersion: apps/v1\nkind: Deployment\nspec: {{ .Values.spec }}\n",
        )
        .file("Dockerfile.web", "FROM {{ base }}\nCMD python app.py\n")
        .file(
            "web.service",
            "[Service]\nExecStart={{ program }}\nKillMode=none\n",
        )
        .file("app.py", SOUND);
    assert_eq!(project.codes(), ["ADD401", "ADP101"]);
    let root = project.path();
    let notices = project.outcome().notices;
    let said: Vec<String> = notices
        .iter()
        .map(|notice| format!("{}: {}", notice.path, notice.message))
        .map(|notice| notice.replace(&format!("{}/", root.display()), ""))
        .collect();
    insta::assert_snapshot!(said.join("\n"), @r"
    Dockerfile.web: is a template; what it becomes cannot be checked
    chart: 1 of 1 templates of this chart cannot be rendered here, `web.yaml` for want of a `Chart.yaml`; `helm template chart | adieu check -` checks them
    ");
}

/// Modules that all take in each other: the ways between them are more than could be tried.
#[test]
fn stars_in_a_circle_come_to_an_end() {
    let names: Vec<String> = (0..12).map(|number| format!("m{number}")).collect();
    let mut project = Project::new().file("pkg/__init__.py", "");
    for own in &names {
        let others = names.iter().filter(|other| *other != own);
        let mut text: String = others
            .map(|other| format!("from pkg.{other} import *\n"))
            .collect();
        text.push_str("async def f():\n    unknown()\n    slow()\n");
        project = project.file(&format!("pkg/{own}.py"), &text);
    }
    let last = "import time\nfrom pkg.m0 import *\ndef slow():\n    time.sleep(1)\n";
    let project = project.file("pkg/last.py", last).file(
        "pkg/m11.py",
        "from pkg.m0 import *\nfrom pkg.last import *\n",
    );
    assert_eq!(project.told().len(), 11, "{:?}", project.told());
}

/// A bundle of definitions has tens of thousands of lines, and is read like any other manifest.
#[test]
fn a_large_manifest_is_checked() {
    let mut text = String::from("apiVersion: v1\nkind: List\nitems:\n");
    for number in 0..4_000 {
        text.push_str(&format!(
            "  - kind: Definition\n    metadata: {{name: d{number}}}\n    spec: {{a: {{b: {{c: {{d: {{e: [1, 2, 3, 4]}}}}}}}}}}\n"
        ));
    }
    text.push_str("  - kind: PodDisruptionBudget\n    spec: {minAvailable: 0}\n");
    let project = Project::new().file("bundle.yaml", &text);
    assert_eq!(project.codes(), ["ADD304"]);
}

const SEEDS: &[(&str, &str)] = &[
    ("app.py", include_str!("seeds/app.py.txt")),
    ("src/lib.rs", include_str!("seeds/lib.rs.txt")),
    ("deployment.yaml", include_str!("seeds/deployment.yaml.txt")),
    ("compose.yaml", include_str!("seeds/compose.yaml.txt")),
    ("Dockerfile", include_str!("seeds/Dockerfile.txt")),
    ("start.sh", include_str!("seeds/start.sh.txt")),
    ("app.service", include_str!("seeds/app.service.txt")),
    ("Procfile", include_str!("seeds/Procfile.txt")),
    (
        "gunicorn.conf.py",
        include_str!("seeds/gunicorn.conf.py.txt"),
    ),
    ("Cargo.toml", include_str!("seeds/Cargo.toml.txt")),
    ("src/main.rs", include_str!("seeds/main.rs.txt")),
    ("main.go", include_str!("seeds/main.go.txt")),
    ("go.mod", "module app\n"),
    ("server.ts", include_str!("seeds/server.ts.txt")),
    ("server.jsx", include_str!("seeds/server.ts.txt")),
    (
        "package.json",
        "{ \"name\": \"app\", \"engines\": { \"node\": \">=16\" } }",
    ),
    ("fly.toml", include_str!("seeds/fly.toml.txt")),
    ("shop.nomad", include_str!("seeds/shop.nomad.txt")),
    (
        "task-definition.json",
        include_str!("seeds/task-definition.json.txt"),
    ),
    (
        "supervisord.conf",
        include_str!("seeds/supervisord.conf.txt"),
    ),
    ("nginx.conf", include_str!("seeds/nginx.conf.txt")),
    ("haproxy.cfg", include_str!("seeds/haproxy.cfg.txt")),
    ("Chart.yaml", "name: shop\n"),
    (
        "templates/web.yaml",
        include_str!("seeds/template.yaml.txt"),
    ),
];

/// Minutes of it convince; the ordinary suite has seconds.
fn cases() -> u32 {
    match std::env::var_os("ADIEU_PROVE") {
        Some(_) => 20_000,
        None => 96,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Cut, doubled and disturbed files of every kind: an answer, always, and never a panic.
    #[test]
    fn disturbed_files_get_an_answer(
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..4u8, "[\\PC\n\t(){}\\[\\]\"'#:=]{0,6}"), 1..12)
    ) {
        let mut project = Project::new();
        for (name, seed) in SEEDS {
            let mut text: Vec<char> = seed.chars().collect();
            for (at, kind, insert) in &edits {
                let at = at.index(text.len() + 1);
                match kind {
                    0 => text.truncate(at.max(1)),
                    1 => { text.splice(at..at, insert.chars()); }
                    2 => { let end = (at + insert.len()).min(text.len()); text.drain(at..end); }
                    _ => { let tail: Vec<char> = text[at..].iter().take(40).copied().collect(); text.splice(at..at, tail); }
                }
            }
            project = project.file(name, &text.into_iter().collect::<String>());
        }
        let outcome = project.outcome();
        prop_assert!(outcome.files >= SEEDS.len());
        for finding in &outcome.findings {
            prop_assert!(finding.place.line >= 1 && finding.place.column >= 1);
        }
    }

    /// Text that is nothing at all, under every name.
    #[test]
    fn any_text_is_read_as_any_kind(text in "\\PC{0,200}") {
        let mut project = Project::new();
        for (name, _) in SEEDS {
            project = project.file(name, &text);
        }
        prop_assert_eq!(project.outcome().files, SEEDS.len());
    }
}
