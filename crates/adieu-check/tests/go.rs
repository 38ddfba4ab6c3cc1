//! What is said of Go programs: each rule beside what is right and looks alike.

mod support;

use support::Project;

/// What is said of the `main` of a service that has a server.
fn of_main(body: &str) -> Vec<String> {
    let text = format!(
        "package main\n\nimport (\n\t\"context\"\n\t\"errors\"\n\t\"log\"\n\t\"net/http\"\n\t\"os\"\n\t\"os/signal\"\n\t\"syscall\"\n\t\"time\"\n)\n\n\
         func main() {{\n{body}\n}}\n"
    );
    Project::new().file("main.go", &text).severities()
}

/// The line of the first line of the body.
const FIRST: usize = 15;

fn at(line: usize, rest: &str) -> String {
    format!("main.go:{} {rest}", FIRST - 1 + line)
}

#[test]
fn a_server_that_no_signal_stops() {
    let text = |server: &str| {
        format!(
            "package main\n\nimport (\n\t\"net\"\n\t\"net/http\"\n\t\"github.com/gin-gonic/gin\"\n\t\"github.com/labstack/echo/v4\"\n\t\"google.golang.org/grpc\"\n)\n\nfunc main() {{\n{server}\n}}\n"
        )
    };
    let told = |server: &str| Project::new().file("main.go", &text(server)).severities();
    for server in [
        "\thttp.ListenAndServe(\":80\", nil)",
        "\tif err := http.ListenAndServe(\":80\", nil); err != nil { panic(err) }",
        "\tserver := &http.Server{}; server.ListenAndServe()",
        "\tvar server http.Server; server.ListenAndServeTLS(\"\", \"\")",
        "\tr := gin.Default(); r.Run(\":80\")",
        "\te := echo.New(); e.Start(\":80\")",
        "\ts := grpc.NewServer(); s.Serve(listener)",
    ] {
        assert_eq!(told(server), ["main.go:12 ADG101 warning"], "{server}");
    }
    for server in [
        // In a goroutine it is not what `main` waits for.
        "\tgo http.ListenAndServe(\":6060\", nil)",
        // It ends by another way.
        "\tserver := &http.Server{}; go wait(server.Close); server.Close(); server.ListenAndServe()",
        "\tr := other.Default(); r.Run(\":80\")",
        "\tcmd.Run()",
    ] {
        assert!(told(server).is_empty(), "{server}: {:?}", told(server));
    }
    assert_eq!(
        told("\thttp.ListenAndServe(\"localhost:80\", nil)"),
        ["main.go:12 ADG101 note"]
    );
    let listener = "\tlistener, err := net.Listen(\"tcp\", \"127.0.0.1:80\"); s := grpc.NewServer(); s.Serve(listener)";
    assert_eq!(told(listener), ["main.go:12 ADG101 note"]);
    let twice = "\tif tls { http.ListenAndServeTLS(\":443\", a, b, nil) } else { http.ListenAndServe(\":80\", nil) }";
    assert_eq!(told(twice), ["main.go:12 ADG101 warning"]);
}

#[test]
fn signals_are_looked_for_in_the_whole_program() {
    let main = "package main\nimport \"net/http\"\nfunc main() {\n\thttp.ListenAndServe(\":80\", nil)\n}\n";
    let signals = "package stop\nimport \"os/signal\"\nfunc Wait() { signal.Notify(make(chan os.Signal, 1)) }\n";
    let other = "package main\nimport \"os/signal\"\nfunc main() { signal.Notify(make(chan os.Signal, 1)) }\n";
    let project = |name: &str, text: &str| {
        Project::new()
            .file("go.mod", "module app\n")
            .file("cmd/web/main.go", main)
            .file(name, text)
            .severities()
    };
    let found = ["cmd/web/main.go:4 ADG101 warning"];
    // In the same package, in a library of the module, and by another package that waits for signals.
    assert!(project("cmd/web/stop.go", other).is_empty());
    assert!(project("internal/stop/stop.go", signals).is_empty());
    let ready =
        "package stop\nimport \"example.com/graceful\"\nfunc Wait() { graceful.Shutdown() }\n";
    assert!(project("internal/stop/stop.go", ready).is_empty());
    // Another program of the module, another module, and a test.
    assert_eq!(project("cmd/worker/main.go", other), found);
    assert_eq!(project("cmd/web/main_test.go", other), found);
    let elsewhere = Project::new()
        .file("a/go.mod", "module a\n")
        .file("a/main.go", main)
        .file("b/go.mod", "module b\n")
        .file("b/stop.go", signals)
        .severities();
    assert!(elsewhere.contains(&"a/main.go:4 ADG101 warning".to_owned()));
}

#[test]
fn a_server_in_a_library_of_a_program() {
    let server = "package web\nimport \"net/http\"\nfunc Run() error {\n\treturn http.ListenAndServe(\":80\", nil)\n}\n";
    let main =
        |body: &str| format!("package main\nimport \"os/signal\"\nfunc main() {{ {body} }}\n");
    let quiet = Project::new().file("web/web.go", server);
    assert!(
        quiet.severities().is_empty(),
        "a library has no signals of its own"
    );
    let program = quiet.file(
        "main.go",
        "package main\nimport \"app/web\"\n// os.Exit\nfunc main() { web.Run() }\n",
    );
    assert_eq!(program.severities(), ["web/web.go:4 ADG101 warning"]);
    let stopped = program.file("main.go", &main("signal.Notify(c)"));
    assert!(stopped.severities().is_empty());
}

#[test]
fn shutdown_is_waited_for() {
    let body = |after: &str| {
        format!(
            "\tserver := &http.Server{{}}\n\tgo func() {{\n\t\twait()\n\t\tserver.Shutdown(limit)\n\t}}()\n\tserver.ListenAndServe()\n{after}"
        )
    };
    assert_eq!(of_main(&body("")), [at(6, "ADG102 error")]);
    assert_eq!(
        of_main(&body("\tlog.Print(\"bye\")")),
        [at(6, "ADG102 error")]
    );
    for after in [
        "\t<-done",
        "\tgroup.Wait()",
        "\tselect {}",
        "\tfor range done {}",
    ] {
        assert!(of_main(&body(after)).is_empty(), "{after}");
    }
    let deferred = body("").replace("\tgo func", "\tdefer func() { <-done }()\n\tgo func");
    assert!(of_main(&deferred).is_empty());
}

#[test]
fn shutdown_has_a_deadline() {
    let body =
        |context: &str| format!("\tserver := &http.Server{{}}\n{context}\n\tserver.Shutdown(ctx)");
    for context in [
        "\tctx := context.Background()",
        "\tctx := context.TODO()",
        "\tvar ctx = context.WithValue(context.Background(), a, b)",
    ] {
        assert_eq!(
            of_main(&body(context)),
            [at(3, "ADG103 warning")],
            "{context}"
        );
    }
    for context in [
        "\tctx, cancel := context.WithTimeout(context.Background(), time.Second)",
        "\tctx := context.Background()\n\tctx, cancel := context.WithDeadline(ctx, soon)",
        "\tctx, cancel := context.WithCancel(context.Background())",
        "\tctx := given()",
        "\tctx := context.Background()\n\tif slow {\n\t\tctx, cancel = context.WithTimeout(ctx, 5)\n\t}",
    ] {
        assert!(
            of_main(&body(context)).is_empty(),
            "{context}: {:?}",
            of_main(&body(context))
        );
    }
    // The exporter of a library has a limit of its own.
    assert!(of_main("\tprovider.Shutdown(context.Background())").is_empty());
}

#[test]
fn a_server_in_a_field_is_known_in_the_whole_package() {
    let stop = "package web\nimport \"context\"\nfunc (a *App) Stop() {\n\ta.server.Shutdown(context.Background())\n}\n";
    let app = |kind: &str| {
        format!(
            "package web\nimport \"net/http\"\nvar _ = http.Server{{}}\ntype App struct {{\n\tserver {kind}\n}}\n"
        )
    };
    let told = |kind: &str| {
        Project::new()
            .file("stop.go", stop)
            .file("app.go", &app(kind))
            .severities()
    };
    assert_eq!(told("*http.Server"), ["stop.go:4 ADG103 warning"]);
    assert!(told("*other.Server").is_empty());
}

#[test]
fn shutdown_has_a_context_that_is_not_over() {
    let start = "\tstop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)\n\tserver := &http.Server{}\n";
    let told = |rest: &str| of_main(&format!("{start}{rest}"));
    for (line, rest) in [
        (4, "\t<-stop.Done()\n\tserver.Shutdown(stop)"),
        (
            5,
            "\t<-stop.Done()\n\tlimit, done := context.WithTimeout(stop, 5)\n\tserver.Shutdown(limit)",
        ),
        (
            5,
            "\tselect {\n\tcase <-stop.Done():\n\t\tserver.Shutdown(stop)\n\tcase <-other:\n\t}",
        ),
        (
            5,
            "\t<-stop.Done()\n\tif verbose {\n\t\tserver.Shutdown(stop)\n\t}",
        ),
    ] {
        assert_eq!(told(rest), [at(line, "ADG104 error")], "{rest}");
    }
    for rest in [
        "\t<-stop.Done()\n\tlimit, done := context.WithTimeout(context.Background(), 5)\n\tserver.Shutdown(limit)",
        "\t<-stop.Done()\n\tlimit, done := context.WithTimeout(context.WithoutCancel(stop), 5)\n\tserver.Shutdown(limit)",
        "\t<-stop.Done()\n\tstop, done := context.WithTimeout(context.Background(), 5)\n\tserver.Shutdown(stop)",
        "\tselect {\n\tcase <-stop.Done():\n\tcase <-other:\n\t\tserver.Shutdown(stop)\n\t}",
        "\tserver.Shutdown(stop)\n\t<-stop.Done()",
        "\t<-other.Done()\n\tserver.Shutdown(stop)",
        "\tgo func() {\n\t\t<-stop.Done()\n\t}()\n\tserver.Shutdown(stop)",
    ] {
        assert!(told(rest).is_empty(), "{rest}: {:?}", told(rest));
    }
}

#[test]
fn signals_that_are_waited_for() {
    let serves = "\tgo http.ListenAndServe(\":80\", nil)\n";
    let told = |rest: &str| of_main(&format!("\tc := make(chan os.Signal, 1)\n{serves}{rest}"));
    for (rest, code) in [
        ("\tsignal.Notify(c, os.Interrupt)", "ADG203 warning"),
        ("\tsignal.Notify(c, syscall.SIGINT)", "ADG203 warning"),
        (
            "\tsignal.NotifyContext(ctx, os.Interrupt)",
            "ADG203 warning",
        ),
        (
            "\tsignal.Notify(c, os.Interrupt, os.Kill)",
            "ADG202 warning",
        ),
        (
            "\tsignal.Notify(c, syscall.SIGTERM, syscall.SIGKILL)",
            "ADG202 note",
        ),
    ] {
        assert_eq!(told(rest), [at(3, code)], "{rest}");
    }
    for rest in [
        "\tsignal.Notify(c)",
        "\tsignal.Notify(c, signals...)",
        "\tsignal.Notify(c, os.Interrupt, syscall.SIGTERM)",
        "\tsignal.Notify(c, syscall.SIGHUP)",
        "\tsignal.Notify(c, os.Interrupt)\n\tsignal.Notify(c, syscall.SIGTERM)",
        "\tsignal.Notify(c, os.Interrupt, stopSignal)",
    ] {
        assert!(told(rest).is_empty(), "{rest}: {:?}", told(rest));
    }
    // A tool for a terminal.
    assert!(of_main("\tc := make(chan os.Signal, 1)\n\tsignal.Notify(c, os.Interrupt)").is_empty());
}

#[test]
fn the_channel_of_signals_has_a_buffer() {
    let told = |made: &str| {
        of_main(&format!(
            "\tc := {made}\n\tsignal.Notify(c, syscall.SIGTERM)"
        ))
    };
    assert_eq!(told("make(chan os.Signal)"), [at(2, "ADG201 warning")]);
    assert!(told("make(chan os.Signal, 1)").is_empty());
    assert!(told("given()").is_empty());
}

#[test]
fn a_library_that_takes_signals() {
    let text = "package cache\nimport \"os/signal\"\nfunc New() {\n\tsignal.Notify(c, syscall.SIGTERM)\n}\n";
    let library = Project::new().file("cache.go", text);
    assert_eq!(library.severities(), ["cache.go:4 ADG204 note"]);
    let program = library.file(
        "cmd/app/main.go",
        "package main\n// os.Exit\nfunc main() {}\n",
    );
    assert!(program.severities().is_empty());
}

#[test]
fn an_exit_when_the_server_is_closed() {
    let body = |serve: &str| {
        format!(
            "\tserver := &http.Server{{}}\n\tgo func() {{\n{serve}\n\t}}()\n\tserver.Shutdown(limit)"
        )
    };
    let errors = |serve: &str| {
        let told = of_main(&body(serve)).into_iter();
        told.filter(|it| it.contains("ADG301")).collect::<Vec<_>>()
    };
    for (line, serve) in [
        (3, "\t\tlog.Fatal(server.ListenAndServe())"),
        (
            4,
            "\t\tif err := server.ListenAndServe(); err != nil {\n\t\t\tlog.Fatalf(\"%v\", err)\n\t\t}",
        ),
        (
            5,
            "\t\terr := server.ListenAndServe()\n\t\tif err != nil {\n\t\t\tos.Exit(1)\n\t\t}",
        ),
    ] {
        assert_eq!(errors(serve), [at(line, "ADG301 error")], "{serve}");
    }
    for serve in [
        "\t\tif err := server.ListenAndServe(); err != nil && err != http.ErrServerClosed {\n\t\t\tlog.Fatal(err)\n\t\t}",
        "\t\tif err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {\n\t\t\tlog.Fatal(err)\n\t\t}",
        "\t\tif err := server.ListenAndServe(); err != nil {\n\t\t\tif !errors.Is(err, http.ErrServerClosed) {\n\t\t\t\tlog.Fatal(err)\n\t\t\t}\n\t\t}",
        "\t\tif err := server.ListenAndServe(); err != nil {\n\t\t\tlog.Print(err)\n\t\t}",
        "\t\tlog.Fatal(http.ListenAndServe(\":6060\", nil))",
        "\t\tlog.Fatal(other.ListenAndServe())",
    ] {
        assert!(errors(serve).is_empty(), "{serve}");
    }
}

#[test]
fn the_end_of_main_runs_what_it_defers() {
    for (line, body) in [
        (2, "\tdefer db.Close()\n\tos.Exit(run())"),
        (2, "\tdefer func() { writer.Flush() }()\n\tlog.Fatal(run())"),
        (
            5,
            "\tsignal.Notify(c, syscall.SIGTERM)\n\tdefer db.Close()\n\tgo func() {\n\t\t<-c\n\t\tos.Exit(0)\n\t}()\n\trun()",
        ),
    ] {
        let told: Vec<String> = of_main(body)
            .into_iter()
            .filter(|it| it.contains("ADG303"))
            .collect();
        assert_eq!(told, [at(line, "ADG303 warning")], "{body}");
    }
    for body in [
        "\tdefer cancel()\n\tos.Exit(run())",
        // It writes all out before it exits.
        "\tdefer logger.Sync()\n\tlogger.Fatal(run())",
        "\tos.Exit(run())\n\tdefer db.Close()",
        "\tdefer db.Close()\n\tif err != nil {\n\t\tos.Exit(1)\n\t}",
        "\tdefer db.Close()\n\tif err != nil {\n\t\tlog.Fatal(err)\n\t}\n\trun()",
    ] {
        assert!(of_main(body).is_empty(), "{body}: {:?}", of_main(body));
    }
}

#[test]
fn an_exit_in_a_goroutine_is_a_note() {
    assert_eq!(
        of_main("\tgo func() {\n\t\tos.Exit(1)\n\t}()"),
        [at(2, "ADG302 note")]
    );
    assert!(of_main("\tos.Exit(1)").is_empty());
}

#[test]
fn comments_and_settings_hold_here_too() {
    let text = |comment: &str| {
        format!(
            "package main\nimport \"net/http\"\nfunc main() {{\n\t{comment}\n\thttp.ListenAndServe(\":80\", nil)\n}}\n"
        )
    };
    let told = |comment: &str| Project::new().file("main.go", &text(comment)).told();
    assert!(
        told(concat!(
            "//",
            " adieu: ignore[ADG101] a mock of the real server"
        ))
        .is_empty()
    );
    assert_eq!(
        told(concat!("//", " adieu: ignore[ADG101]")),
        ["main.go:4 ADX102"]
    );
    assert_eq!(
        told(concat!("//", " adieu: ignore[ADG103] nothing")),
        ["main.go:4 ADX101", "main.go:5 ADG101"]
    );
    let plain = text("");
    let aside = Project::new()
        .file("examples/web/main.go", &plain)
        .file("test/web/main.go", &plain);
    assert_eq!(aside.severities(), ["examples/web/main.go:5 ADG101 note"]);
}
