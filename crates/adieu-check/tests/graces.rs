//! The program's own grace against the one around it: found where the link between the two is
//! certain, and not guessed where it is not.

mod support;

use support::Project;

const DEPLOYMENT: &str = "apiVersion: apps/v1
kind: Deployment
metadata:
  name: shop
spec:
  template:
    spec:
      containers:
        - name: shop
          image: registry.example/shop:1
";

const SHOP: &str = "use std::time::Duration;

const GRACE: Duration = Duration::from_secs(45);

fn main() -> adieu::report::Exit {
    adieu::service(\"shop\").lame_duck(Duration::from_secs(5)).grace(GRACE).run(setup)
}
";

fn shop() -> Project {
    Project::new()
        .file(
            "Cargo.toml",
            "[package]\nname = \"shop\"\nversion = \"0.1.0\"\n[dependencies]\nadieu = \"0.1\"\n",
        )
        .file("src/main.rs", SHOP)
}

#[test]
fn code_of_an_adieu_service_is_read_for_units_and_pods() {
    let project = shop()
        .file(
            "Dockerfile",
            "FROM rust AS build\nRUN cargo build\nFROM debian:12\nCOPY --from=build /target/release/shop /usr/bin/server\nENTRYPOINT [\"server\"]\n",
        )
        .file("compose.yaml", "services:\n  web:\n    build: .\n    image: shop\n    stop_grace_period: 20s\n")
        .file("deploy/shop.yaml", DEPLOYMENT)
        .file("deploy/shop.service", "[Service]\nExecStart=/usr/local/bin/shop --port 80\nTimeoutStopSec=30\n")
        .file("Procfile", "web: ./target/release/shop\n");
    insta::assert_snapshot!(project.text(), @r"
    Procfile:1:1: ADD501 Heroku kills `web` 30 s after SIGTERM while the service takes up to 45 s to stop: make that shorter
      src/main.rs:6:62: grace
    compose.yaml:5:1: ADD201 `web` is killed after 20 s while the service takes up to 45 s to stop
      src/main.rs:6:62: grace
    deploy/shop.service:3:1: ADD402 systemd kills after 30 s while the service takes up to 45 s to stop
      src/main.rs:6:62: grace
    deploy/shop.yaml:9:1: ADD301 `shop` is killed after 30 s, but the service takes up to 45 s to stop: raise `terminationGracePeriodSeconds`
      src/main.rs:6:62: grace
    ");
}

#[test]
fn python_servers_are_read_from_their_code_and_their_settings() {
    let project = Project::new()
        .file("api/Dockerfile", "FROM python:3.13\nWORKDIR /app\nCMD [\"python\", \"-m\", \"api.main\"]\n")
        .file("api/api/main.py", "import uvicorn\n\nif __name__ == '__main__':\n    uvicorn.run('api:app', timeout_graceful_shutdown=40)\n")
        .file("web/Dockerfile", "FROM python:3.13\nCMD exec gunicorn web:app\n")
        .file("web/gunicorn.conf.py", "bind = ':80'\ngraceful_timeout = 60\n")
        .file("old/Dockerfile", "FROM python:3.13\nENTRYPOINT [\"/start.sh\"]\nCMD [\"old:app\"]\n")
        .file("old/start.sh", "#!/bin/sh\nmigrate\nexec gunicorn \"$@\"\n")
        .file(
            "compose.yaml",
            "services:
  api:
    build: api
    stop_grace_period: 30s
  web:
    build: ./web
    stop_grace_period: 30s
  old:
    build: {context: old}
    stop_grace_period: 20s
  new:
    build: old
    command: [\"old:app\", \"--graceful-timeout\", \"15\"]
    stop_grace_period: 20s
",
        );
    insta::assert_snapshot!(project.text(), @r"
    compose.yaml:4:1: ADD501 `api` is killed after 30 s while uvicorn takes up to 40 s to stop
      api/api/main.py:4:5: timeout_graceful_shutdown
    compose.yaml:7:1: ADD501 `web` is killed after 30 s while gunicorn takes up to 60 s to stop
      web/gunicorn.conf.py:2:1: graceful_timeout
    compose.yaml:10:1: ADD501 `old` is killed after 20 s while gunicorn takes up to 30 s to stop
    ");
}

#[test]
fn the_environment_is_read_where_it_is_set() {
    let map =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: times}\ndata: {ADIEU_GRACE: 40s}\n---\n";
    let from = "          envFrom: [{configMapRef: {name: times}}]\n";
    let key = "          env:\n            - name: ADIEU_GRACE\n              valueFrom: {configMapKeyRef: {name: times, key: ADIEU_GRACE}}\n";
    let project = Project::new()
        .file("from.yaml", &format!("{map}{DEPLOYMENT}{from}"))
        .file("key.yaml", &format!("{DEPLOYMENT}{key}"))
        .file(
            "app.service",
            "[Service]\nEnvironment=\"A=b\" ADIEU_GRACE=2min\nExecStart=/usr/bin/app\n",
        )
        .file(
            "compose.yaml",
            "services:\n  web:\n    build: .\n    stop_grace_period: 30s\n",
        )
        .file(
            "Dockerfile",
            "FROM debian:12\nENV ADIEU_GRACE=50s\nCMD [\"/app\"]\n",
        );
    insta::assert_snapshot!(project.text(), @r"
    app.service:3:1: ADD402 systemd kills after 90 s while the program takes up to 120 s to stop: say `TimeoutStopSec=`
    compose.yaml:4:1: ADD201 `web` is killed after 30 s while the program takes up to 50 s to stop
    from.yaml:14:1: ADD301 `shop` is killed after 30 s, but the program takes up to 40 s to stop: raise `terminationGracePeriodSeconds`
    key.yaml:9:1: ADD301 `shop` is killed after 30 s, but the program takes up to 40 s to stop: raise `terminationGracePeriodSeconds`
    ");
}

#[test]
fn a_procfile_is_read_through_its_shell() {
    let project = Project::new().file(
        "Procfile",
        "# processes
web: cd src && PORT=80 exec gunicorn app --graceful-timeout 60
api: bash -c 'migrate; uvicorn app:app --timeout-graceful-shutdown=45'
fine: gunicorn app --graceful-timeout 25
both: worker --grace 90 & web --grace 90
release: migrate --grace 90
",
    );
    insta::assert_snapshot!(project.text(), @r"
    Procfile:2:1: ADD501 Heroku kills `web` 30 s after SIGTERM while gunicorn takes up to 60 s to stop: make that shorter
    Procfile:3:1: ADD501 Heroku kills `api` 30 s after SIGTERM while uvicorn takes up to 45 s to stop: make that shorter
    ");
}

macro_rules! unsure {
    ($($name:ident: $project:expr;)*) => {$(
        #[test]
        fn $name() {
            assert_eq!($project.text(), "");
        }
    )*};
}

unsure! {
    a_service_that_notifies_tells_systemd_itself: shop()
        .file("shop.service", "[Service]\nType=notify\nExecStart=/usr/bin/shop\nTimeoutStopSec=30\n");
    another_program_of_the_tree_is_not_meant: shop()
        .file("other.service", "[Service]\nExecStart=/usr/bin/other\nTimeoutStopSec=30\n");
    an_image_of_another_name_is_not_meant: shop()
        .file("k.yaml", &DEPLOYMENT.replace("shop:1", "basket:1"));
    the_grace_of_a_test_is_none: Project::new()
        .file("Cargo.toml", "[package]\nname = \"shop\"\nversion = \"0.1.0\"\n[dependencies]\nadieu = \"0.1\"\n")
        .file("src/main.rs", "fn main() {}\n#[cfg(test)]\nmod tests {\n    fn t() { adieu::service(\"shop\").grace(std::time::Duration::from_secs(99)); }\n}\n")
        .file("shop.service", "[Service]\nExecStart=/usr/bin/shop\nTimeoutStopSec=30\n");
    a_grace_that_is_computed: Project::new()
        .file("Cargo.toml", "[package]\nname = \"shop\"\nversion = \"0.1.0\"\n[dependencies]\nadieu = \"0.1\"\n")
        .file("src/main.rs", "fn main() { adieu::service(\"shop\").grace(settings().grace).run(setup); }\n")
        .file("shop.service", "[Service]\nExecStart=/usr/bin/shop\nTimeoutStopSec=30\n");
    two_files_could_be_meant: Project::new()
        .file("a/main.py", "import uvicorn\nuvicorn.run('a', timeout_graceful_shutdown=99)\n")
        .file("b/main.py", "print()\n")
        .file("app.service", "[Service]\nExecStart=/usr/bin/python3 /opt/app/main.py\nTimeoutStopSec=30\n");
    settings_of_gunicorn_from_elsewhere: Project::new()
        .file("app.service", "[Service]\nExecStart=/usr/bin/gunicorn -c /etc/gunicorn.py app\nTimeoutStopSec=20\n");
    settings_of_gunicorn_under_a_condition: Project::new()
        .file("gunicorn.conf.py", "import os\nif os.environ.get('X'):\n    graceful_timeout = 99\n")
        .file("app.service", "[Service]\nExecStart=/usr/bin/gunicorn app\nTimeoutStopSec=20\n");
    milliseconds_and_variables_are_not_guessed: Project::new()
        .file("compose.yaml", "services:
  a:
    image: a
    stop_grace_period: 30s
    environment: {SHUTDOWN_TIMEOUT: 30000}
  b:
    image: b
    stop_grace_period: 30s
    command: gunicorn b --graceful-timeout ${GRACE:-60}
  c:
    image: c
    stop_grace_period: 30s
    environment: [\"ADIEU_GRACE=${GRACE}\"]
");
    a_grace_below_dockers_own_needs_no_period: Project::new()
        .file("Dockerfile", "FROM debian:12\nENTRYPOINT [\"adieu\", \"run\", \"--grace\", \"8s\", \"--\"]\nCMD [\"server\"]\n")
        .file("compose.yaml", "services:\n  web:\n    build: .\n");
    a_stage_of_a_dockerfile_is_another_program: Project::new()
        .file("Dockerfile", "FROM python:3.13 AS web\nFROM web AS last\nCMD [\"gunicorn\", \"app\"]\n")
        .file("compose.yaml", "services:\n  web:\n    build: {context: ., target: web}\n    stop_grace_period: 20s\n");
    a_compose_file_laid_over_another: Project::new()
        .file("compose.yaml", "services:\n  web:\n    image: app\n    stop_grace_period: 20s\n")
        .file("compose.override.yaml", "services:\n  web:\n    ports: ['80:80']\n");
    a_patch_of_a_deployment: Project::new()
        .file("patch.yaml", "apiVersion: apps/v1\nkind: Deployment\nspec:\n  template:\n    spec:\n      containers:\n        - name: web\n          ports: [{containerPort: 80}]\n          lifecycle: {preStop: {sleep: {seconds: 40}}}\n");
    replicas_that_an_autoscaler_sets: Project::new()
        .file("k.yaml", "apiVersion: apps/v1\nkind: Deployment\nspec:\n  strategy: {rollingUpdate: {maxUnavailable: 1}}\n  template: {spec: {containers: [{name: a, image: b}]}}\n");
    variables_from_an_unknown_map: Project::new()
        .file("k.yaml", &format!("{DEPLOYMENT}          args: [\"--port\", \"80\"]\n          envFrom: [{{configMapRef: {{name: elsewhere}}}}]\n"));
}
