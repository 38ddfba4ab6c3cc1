//! Servers that no signal shuts down, and shells above them: what is found, and what is right though it looks wrong.

use crate::support::Project;

/// A service that serves with axum.
fn axum(main: &str) -> Project {
    Project::rust("").file(
        "src/main.rs",
        &format!("use axum::Router;\n#[tokio::main]\nasync fn main() {{\n{main}\n}}\n"),
    )
}

/// A pod of a Deployment whose container has these lines.
fn pod(lines: &str) -> Project {
    let ready = "readinessProbe: {tcpSocket: {port: 80}}";
    Project::new().file(
        "k.yaml",
        &format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  template:\n    spec:\n      \
             containers:\n        - name: web\n          image: shop:1\n          {ready}\n          {lines}\n"
        ),
    )
}

predictions! {
    axum_awaited: axum("    axum::serve(listener, Router::new()).await.unwrap();")
    => ["src/main.rs:4 ADR302"];
    axum_in_a_name: axum("    let server = axum::serve(listener, Router::new()).tcp_nodelay(true);\n    server.await.unwrap();")
    => ["src/main.rs:5 ADR302"];
    axum_graceful_clean: axum("    // SIGTERM\n    axum::serve(listener, Router::new()).with_graceful_shutdown(stop()).await.unwrap();")
    => [];
    axum_in_a_select_clean: axum("    tokio::select! {\n        _ = axum::serve(listener, Router::new()).into_future() => {}\n        _ = stop() => {}\n    }")
    => [];
    axum_in_a_test_clean: Project::rust("#[cfg(test)]\nmod tests {\n    #[tokio::test]\n    async fn it_serves() {\n        axum::serve(listener, app).await.unwrap();\n    }\n}\n")
    => [];
    tonic_awaited: Project::rust("use tonic::transport::Server;\npub async fn run(addr: std::net::SocketAddr) {\n    Server::builder().add_service(greeter()).serve(addr).await.unwrap();\n}\n")
    => ["src/lib.rs:3 ADR302"];
    tonic_with_shutdown_clean: Project::rust("use tonic::transport::Server;\npub async fn run(addr: std::net::SocketAddr) {\n    Server::builder().add_service(greeter()).serve_with_shutdown(addr, stop()).await.unwrap();\n}\n")
    => [];
    own_serve_clean: Project::rust("mod server {\n    pub async fn serve(_: u8) {}\n}\nuse server as axum;\npub async fn run() {\n    axum::serve(1).await;\n}\n")
    => [];

    ctrl_c_in_a_service: axum("    axum::serve(listener, Router::new()).with_graceful_shutdown(async { let _ = tokio::signal::ctrl_c().await; }).await.unwrap();")
    => ["src/main.rs:4 ADR303"];
    ctrl_c_in_a_select: Project::rust("").file(
        "src/main.rs",
        "use axum::Router;\nuse tokio::signal;\n#[tokio::main]\nasync fn main() {\n    tokio::select! {\n        _ = signal::ctrl_c() => {}\n        _ = work() => {}\n    }\n}\n",
    )
    => ["src/main.rs:6 ADR303"];
    ctrl_c_beside_sigterm_clean: axum("    tokio::select! {\n        _ = tokio::signal::ctrl_c() => {}\n        _ = terminated() => {}\n    }")
        .file("src/lib.rs", "use tokio::signal::unix::{signal, SignalKind};\npub async fn terminated() {\n    signal(SignalKind::terminate()).unwrap().recv().await;\n}\n")
    => [];
    ctrl_c_in_a_tool_clean: Project::rust("pub async fn run() {\n    let _ = tokio::signal::ctrl_c().await;\n}\n")
    => [];

    uvicorn_without_a_limit: Project::python("import uvicorn\nuvicorn.run('app:app', port=80)\n")
    => ["app.py:2 ADP506"];
    uvicorn_config_without_a_limit: Project::python("from uvicorn import Config, Server\nserver = Server(Config('app:app'))\n")
    => ["app.py:2 ADP506"];
    uvicorn_with_a_limit_clean: Project::python("import uvicorn\nuvicorn.run('app:app', timeout_graceful_shutdown=9)\n")
    => [];
    uvicorn_with_hidden_options_clean: Project::python("import uvicorn\nuvicorn.run('app:app', **settings)\n")
    => [];
    uvicorn_for_a_developer_clean: Project::python("import uvicorn\nuvicorn.run('app:app', reload=True)\n")
    => [];
    uvicorn_in_a_test_clean: Project::new().file("tests/test_app.py", "import uvicorn\nuvicorn.run('app:app')\n")
    => [];

    shell_in_a_pod: pod("command: [sh, -c, 'python migrate.py && gunicorn app:app']")
    => ["k.yaml:11 ADD101"];
    shell_with_arguments: pod("command: [/bin/sh, -c]\n          args: ['gunicorn app:app']")
    => ["k.yaml:11 ADD101"];
    shell_that_execs_clean: pod("command: [sh, -c, 'python migrate.py && exec gunicorn app:app']")
    => [];
    shell_with_a_trap_clean: pod("command: [sh, -c, 'trap stop TERM; gunicorn app:app']")
    => [];
    shell_that_makes_way_clean: pod("command: [bash, -c, 'python migrate.py && gunicorn app:app']")
    => [];
    shell_of_a_variable_clean: pod("command: [sh, -c, '$START']")
    => [];
    shell_of_short_programs_clean: pod("command: [sh, -c, 'cp -r /seed /data']")
    => [];
    shell_below_an_init_clean: pod("command: [tini, --, sh, -c, 'gunicorn app:app']")
    => [];
    shell_beside_another_pid_1_clean: Project::new().file(
        "k.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  template:\n    spec:\n      shareProcessNamespace: true\n      \
         containers:\n        - name: web\n          image: shop:1\n          command: [sh, -c, 'gunicorn app:app']\n",
    )
    => [];
    shell_in_a_job_clean: Project::new().file(
        "k.yaml",
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: once}\nspec:\n  template:\n    spec:\n      \
         containers:\n        - name: once\n          image: shop:1\n          command: [sh, -c, 'python migrate.py']\n",
    )
    => [];
    dotnet_run: Project::new().file("Dockerfile", "FROM dotnet\nENTRYPOINT [\"dotnet\", \"run\"]\n")
    => ["Dockerfile:2 ADD105"];
    dotnet_itself_clean: Project::new().file("Dockerfile", "FROM dotnet\nENTRYPOINT [\"dotnet\", \"shop.dll\"]\n")
    => [];

    dropped_list_of_tasks: Project::python("import asyncio\nasync def f(jobs):\n    [asyncio.create_task(job()) for job in jobs]\n    await asyncio.sleep(1)\n")
    => ["app.py:3 ADP301"];
    thrown_away_list_of_tasks: Project::python("import asyncio\nasync def f(a, b):\n    _ = [asyncio.create_task(a()), asyncio.create_task(b())]\n    await asyncio.sleep(1)\n")
    => ["app.py:3 ADP301", "app.py:3 ADP301"];
    gathered_list_of_tasks_clean: Project::python("import asyncio\nasync def f(jobs):\n    tasks = [asyncio.create_task(job()) for job in jobs]\n    await asyncio.gather(*tasks)\n")
    => [];
    list_of_a_group_clean: Project::python("import asyncio\nasync def f(jobs):\n    async with asyncio.TaskGroup() as group:\n        [group.create_task(job()) for job in jobs]\n")
    => [];
    annotated_dependency: Project::python("import time\nfrom typing import Annotated\nfrom fastapi import Depends\n\nclass Repo:\n    def load(self):\n        time.sleep(1)\n\nDep = Annotated[Repo, Depends()]\n\nasync def f(repo: Annotated[Repo, Depends()], other: Dep):\n    repo.load()\n    other.load()\n")
    => ["app.py:12 ADP101", "app.py:13 ADP101"];
}
