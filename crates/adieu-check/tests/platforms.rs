//! Files of platforms: Fly.io, Cloud Run, ECS, Nomad, supervisord, s6, nginx, HAProxy, charts and kustomizations.

mod support;

use support::Project;

/// What is found in one file.
fn of(name: &str, text: &str) -> Vec<String> {
    Project::new().file(name, text).severities()
}

const GUNICORN: &str = "gunicorn shop:app --graceful-timeout 60";

#[test]
fn fly_waits_five_seconds_and_sends_sigint() {
    let text = format!("app = 'shop'\n[processes]\nweb = '{GUNICORN}'\n");
    assert_eq!(
        of("fly.toml", &text),
        ["fly.toml:3 ADD103 error", "fly.toml:3 ADD701 error"]
    );
    let text = format!("kill_signal = 'SIGTERM'\nkill_timeout = 60\n{text}");
    assert!(of("fly.toml", &text).is_empty());
    let told = Project::new()
        .file("fly.toml", "kill_timeout = 301\n")
        .text();
    assert!(told.contains("Fly.io waits 300 s at most"), "{told}");
}

#[test]
fn fly_starts_what_its_dockerfile_starts() {
    let project = |grace| {
        Project::new()
            .file("Dockerfile", "FROM python\nCMD [\"uvicorn\", \"a:b\", \"--timeout-graceful-shutdown\", \"20\"]\n")
            .file("fly.toml", &format!("app = 'shop'\nkill_timeout = '{grace}'\n"))
            .severities()
    };
    assert_eq!(project("10s"), ["fly.toml:2 ADD701 error"]);
    assert!(project("20s").is_empty());
}

#[test]
fn cloud_run_waits_ten_seconds_whatever_is_said() {
    let text = |mark| {
        format!(
            "apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata:\n  name: web\n  annotations:\n    {mark}: all\nspec:\n  \
             template:\n    spec:\n      timeoutSeconds: 300\n      containers:\n        - image: shop\n          command: [gunicorn, \
             'shop:app', --graceful-timeout, '60']\n"
        )
    };
    assert_eq!(
        of("service.yaml", &text("run.googleapis.com/ingress")),
        ["service.yaml:12 ADD701 error"]
    );
    // On a cluster Knative waits as Kubernetes does.
    assert!(of("service.yaml", &text("autoscaling.knative.dev/min-scale")).is_empty());
}

#[test]
fn a_task_definition_says_how_long_ecs_waits() {
    let text = |stop: &str| {
        format!(
            "{{\n\t\"requiresCompatibilities\": [\"FARGATE\"],\n\t\"containerDefinitions\": [{{\n\t\t\"name\": \"web\",\n\t\t\"image\": \
             \"shop\",{stop}\n\t\t\"command\": [\"gunicorn\", \"shop:app\", \"--graceful-timeout\", \"60\"]\n\t}}]\n}}\n"
        )
    };
    assert_eq!(
        of("task-definition.json", &text("")),
        ["task-definition.json:3 ADD701 error"]
    );
    assert!(of("task-definition.json", &text("\n\"stopTimeout\": 70,")).is_empty());
    assert_eq!(
        of("taskdef.json", &text("\n\"stopTimeout\": 121,")),
        ["taskdef.json:6 ADD701 error"]
    );
    // A file of that name may be anything.
    assert!(of("task-definition.json", "{\"a\": [1").is_empty());
    assert_eq!(
        of("task-definition.json", "{\"containerDefinitions\": [1"),
        ["task-definition.json:2 ADX001 warning"]
    );
}

#[test]
fn a_task_of_nomad_is_killed_after_five_seconds() {
    let text = |extra: &str| {
        format!(
            "job \"shop\" {{\n  group \"web\" {{\n    task \"web\" {{\n      driver = \"docker\"\n      config {{\n        image = \
             \"shop\"\n        args  = [\"gunicorn\", \"shop:app\", \"--graceful-timeout\", \"60\"]\n      }}\n      {extra}\n    }}\n  \
             }}\n}}\n"
        )
    };
    let signal = "kill_signal = \"SIGTERM\"";
    assert_eq!(
        of("shop.nomad", &text("")),
        ["shop.nomad:3 ADD103 error", "shop.nomad:3 ADD701 error"]
    );
    assert_eq!(
        of("shop.nomad.hcl", &text(signal)),
        ["shop.nomad.hcl:3 ADD701 error"]
    );
    assert!(
        of(
            "shop.nomad",
            &text(&format!("kill_timeout = \"60s\"\n{signal}"))
        )
        .is_empty()
    );
    // What a tool computes is not guessed.
    let computed = format!("kill_timeout = \"${{var.grace}}\"\n{signal}");
    assert!(of("shop.nomad", &text(&computed)).is_empty());
    assert_eq!(
        of("shop.nomad", "job \"a\" {\n"),
        ["shop.nomad:1 ADX001 warning"]
    );
}

#[test]
fn supervisord_waits_ten_seconds_for_the_command_alone() {
    let text = |extra: &str, command: &str| {
        format!("[supervisord]\nnodaemon=true\n\n[program:web]\ncommand={command}\n{extra}\n")
    };
    assert_eq!(
        of("supervisord.conf", &text("", GUNICORN)),
        ["supervisord.conf:5 ADD701 error"]
    );
    assert!(of("supervisord.conf", &text("stopwaitsecs=60", GUNICORN)).is_empty());
    assert_eq!(
        of(
            "supervisord.conf",
            &text("stopsignal=INT\nstopwaitsecs=60", GUNICORN)
        ),
        ["supervisord.conf:6 ADD103 error"]
    );
    let shell = "sh -c 'cd /app && ./server'";
    assert_eq!(
        of("docker/supervisor/web.conf", &text("", shell)),
        ["docker/supervisor/web.conf:5 ADD101 error"]
    );
    assert!(of("supervisord.conf", &text("stopasgroup=true", shell)).is_empty());
    assert!(of("web.conf", &text("", shell)).is_empty());
}

#[test]
fn a_run_script_of_s6_makes_way_for_its_program() {
    let path = "rootfs/etc/s6-overlay/s6-rc.d/web/run";
    let shell = "#!/command/with-contenv sh\n";
    let found = of(path, &format!("{shell}server --port 80\n"));
    assert_eq!(found, [format!("{path}:2 ADD102 error")]);
    assert!(of(path, &format!("{shell}exec server --port 80\n")).is_empty());
    assert!(of(path, "#!/command/execlineb -P\nserver --port 80\n").is_empty());
}

#[test]
fn a_proxy_needs_an_end_for_its_old_workers() {
    let sockets = "http {\n  server {\n    proxy_set_header Upgrade $http_upgrade;\n  }\n}\n";
    assert_eq!(of("nginx.conf", sockets), ["nginx.conf:1 ADD702 warning"]);
    assert_eq!(
        of("nginx.conf", "events {}\nhttp {\n}\n"),
        ["nginx.conf:2 ADD702 note"]
    );
    assert!(
        of(
            "nginx.conf",
            &format!("worker_shutdown_timeout 1m;\n{sockets}")
        )
        .is_empty()
    );
    let haproxy = "global\n  maxconn 10\ndefaults\n  timeout tunnel 1h\n";
    assert_eq!(of("haproxy.cfg", haproxy), ["haproxy.cfg:1 ADD702 warning"]);
    assert!(of("haproxy.cfg", "global\n  hard-stop-after 30s\n").is_empty());
}

#[test]
fn a_unit_that_a_build_completes_is_read() {
    let unit = "[Service]\nExecStart=@bindir@/shop\nKillMode=none\nTimeoutStopSec=@STOP@\n";
    assert_eq!(
        of("shop.service.in", unit),
        ["shop.service.in:3 ADD401 error"]
    );
    let unit = "[Service]\nExecStart={{ bin }}\nKillMode=process\nTimeoutStopSec={{ stop }}\n";
    assert_eq!(
        of("shop.service.j2", unit),
        ["shop.service.j2:3 ADD401 error"]
    );
}

const SERVICE: &str =
    "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  selector: {app: web}\n";

fn pod(extra: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  replicas: 3\n  template:\n    metadata:\n      \
         labels: {{app: web, tier: a}}\n    spec:\n      containers:\n        - name: web\n          image: shop\n{extra}"
    )
}

#[test]
fn a_pod_behind_a_service_needs_a_readiness_probe() {
    let project = |extra: &str| {
        Project::new()
            .file("service.yaml", SERVICE)
            .file("pod.yaml", &pod(extra))
            .severities()
    };
    assert_eq!(project(""), ["pod.yaml:11 ADD302 warning"]);
    assert_eq!(
        project("          ports: [{containerPort: 80}]\n"),
        ["pod.yaml:13 ADD302 warning"]
    );
    assert!(project("          readinessProbe: {tcpSocket: {port: 80}}\n").is_empty());
    assert!(of("pod.yaml", &pod("")).is_empty());
    let elsewhere = Project::new()
        .file(
            "service.yaml",
            &SERVICE.replace("{name: web}", "{name: web, namespace: a}"),
        )
        .file(
            "pod.yaml",
            &pod("").replace("{name: web}", "{name: web, namespace: b}"),
        );
    assert!(elsewhere.severities().is_empty());
}

#[test]
fn a_budget_that_refuses_every_eviction_is_found() {
    let budget = |rest: &str| {
        format!(
            "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: web}}\nspec:\n  {rest}\n  selector:\n    matchLabels: {{app: web}}\n"
        )
    };
    assert_eq!(
        of("pdb.yaml", &budget("maxUnavailable: 0")),
        ["pdb.yaml:5 ADD305 warning"]
    );
    assert_eq!(
        of("pdb.yaml", &budget("minAvailable: 100%")),
        ["pdb.yaml:5 ADD305 warning"]
    );
    assert!(of("pdb.yaml", &budget("minAvailable: 3")).is_empty());
    let project = |least| {
        Project::new()
            .file("pdb.yaml", &budget(&format!("minAvailable: {least}")))
            .file("pod.yaml", &pod(""))
            .severities()
    };
    assert_eq!(project(3), ["pdb.yaml:5 ADD305 warning"]);
    assert!(project(2).is_empty());
}

#[test]
fn a_kustomization_may_hold_the_grace() {
    let pod = pod("          command: [gunicorn, 'shop:app', --graceful-timeout, '60']\n");
    assert_eq!(of("base/pod.yaml", &pod), ["base/pod.yaml:11 ADD501 error"]);
    let merge = "resources: [../base]\npatches:\n  - patch: |-\n      apiVersion: apps/v1\n      kind: Deployment\n      metadata: {name: web}\n      spec: {template: {spec: {terminationGracePeriodSeconds: 90}}}\n";
    let json = "resources: [../base]\npatches:\n  - target: {kind: Deployment, name: web}\n    patch: |-\n      - op: add\n        path: /spec/template/spec/terminationGracePeriodSeconds\n        value: 90\n";
    for text in [merge, json] {
        let project = Project::new()
            .file("base/pod.yaml", &pod)
            .file("live/kustomization.yaml", text);
        assert!(project.severities().is_empty(), "{}", project.text());
    }
}

/// A chart with one template.
fn chart(template: &str) -> Project {
    Project::new()
        .file("shop/Chart.yaml", "apiVersion: v2\nname: shop\nversion: 1.0.0\n")
        .file("shop/values.yaml", "grace: 30\nweb:\n  image: {name: shop, tag: '1'}\n  args: [gunicorn, 'shop:app', --graceful-timeout, '60']\n  labels: {}\n")
        .file(
            "shop/templates/_helpers.tpl",
            "{{- define \"shop.name\" -}}\n{{ .Release.Name }}-{{ .Chart.Name | trunc 63 | trimSuffix \"-\" }}\n{{- end }}\n",
        )
        .file("shop/templates/web.yaml", template)
}

const TEMPLATE: &str = "{{- $web := .Values.web -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include \"shop.name\" . }}
  {{- with $web.labels }}
  labels:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  template:
    spec:
      {{- if and .Values.grace (not .Values.forever) }}
      terminationGracePeriodSeconds: {{ .Values.grace }}
      {{- end }}
      containers:
        - name: {{ .Chart.Name }}
          image: \"{{ $web.image.name }}:{{ $web.image.tag | default \"latest\" }}\"
          command:
            {{- range $web.args }}
            - {{ . | quote }}
            {{- end }}
";

#[test]
fn a_chart_is_rendered_with_its_own_values() {
    let project = chart(TEMPLATE);
    assert_eq!(
        project.severities(),
        ["shop/templates/web.yaml:14 ADD501 error"],
        "{}",
        project.text()
    );
    let told = project.text();
    assert!(
        told.contains("`shop` is killed after 30 s, but gunicorn takes up to 60 s"),
        "{told}"
    );
    let fits = chart(TEMPLATE).file("shop/values.yaml", "grace: 90\nweb:\n  image: {name: shop}\n  args: [gunicorn, 'shop:app', --graceful-timeout, '60']\n");
    assert!(fits.severities().is_empty(), "{}", fits.text());
}

#[test]
fn what_a_chart_cannot_give_is_one_line_for_the_chart() {
    let lacks = "kind: A\napiVersion: v1\nx: {{ include \"common.name\" . }}\n";
    let project = chart(TEMPLATE)
        .file("shop/templates/a.yaml", lacks)
        .file("shop/templates/b.yaml", lacks)
        .file(
            "shop/templates/c.yaml",
            "kind: A\napiVersion: v1\nx: {{ if .Values.x }}\n",
        );
    let outcome = project.outcome();
    let notices: Vec<&str> = outcome
        .notices
        .iter()
        .map(|notice| &*notice.message)
        .collect();
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(
        notices[0].starts_with("3 of 4 templates of this chart cannot be rendered here, `a.yaml` for want of the template `common.name`"),
        "{notices:?}"
    );
    assert_eq!(
        project.severities(),
        ["shop/templates/web.yaml:14 ADD501 error"]
    );
}

#[test]
fn values_that_cannot_be_read_leave_the_rest_checked() {
    let project = chart(TEMPLATE)
        .file("shop/values.yaml", "a: [\n")
        .file("Dockerfile", "FROM python\nCMD python app.py\n");
    let outcome = project.outcome();
    let notice = &outcome.notices[0];
    assert!(notice.path.ends_with("shop/values.yaml"), "{notice:?}");
    assert!(
        notice.message.contains("its chart is rendered without"),
        "{notice:?}"
    );
    assert_eq!(project.severities(), ["Dockerfile:2 ADD101 error"]);
}

#[test]
fn a_chart_that_never_ends_is_cut_off() {
    let project = chart("kind: A\napiVersion: v1\nx: {{ include \"loop\" . }}\n{{ define \"loop\" }}{{ include \"loop\" . }}{{ end }}\n")
        .file("shop/templates/wide.yaml", "kind: A\napiVersion: v1\nx: {{ range until 1000 }}{{ range until 1000 }}{{ range until 1000 }}a{{ end }}{{ end }}{{ end }}\n");
    let outcome = project.outcome();
    assert_eq!(outcome.notices.len(), 1, "{:?}", outcome.notices);
    assert!(
        outcome.notices[0].message.starts_with("2 of 2 templates"),
        "{:?}",
        outcome.notices
    );
}

#[test]
fn python_as_pid_1_needs_a_handler() {
    let worker = "import time\n\nwhile True:\n    time.sleep(1)\n";
    let project = |image: &str, code: &str| {
        Project::new()
            .file("Dockerfile", image)
            .file("worker.py", code)
    };
    let image = "FROM python\nCMD [\"python\", \"worker.py\"]\n";
    assert_eq!(
        project(image, worker).severities(),
        ["Dockerfile:2 ADD106 warning"]
    );
    let script = "FROM python\nENTRYPOINT [\"./start.sh\"]\n";
    let started = project(script, worker).file("start.sh", "#!/bin/sh\nexec python worker.py\n");
    assert_eq!(started.severities(), ["Dockerfile:2 ADD106 warning"]);
    for (image, code) in [
        (
            "FROM python\nENTRYPOINT [\"tini\", \"--\"]\nCMD [\"python\", \"worker.py\"]\n",
            worker,
        ),
        (
            image,
            "import signal, time\nsignal.signal(signal.SIGTERM, stop)\nwhile True:\n    time.sleep(1)\n",
        ),
        (image, "print('done')\n"),
        (image, "while True:\n    if done():\n        break\n"),
    ] {
        let told = project(image, code).severities();
        assert!(told.is_empty(), "{told:?}");
    }
    let compose = project(image, worker).file(
        "compose.yaml",
        "services:\n  worker:\n    build: .\n    init: true\n    stop_grace_period: 5s\n",
    );
    assert!(compose.severities().is_empty(), "{}", compose.text());
}

#[test]
fn work_before_exec_is_a_note() {
    let project = |script: &str| {
        Project::new()
            .file("Dockerfile", "FROM python\nENTRYPOINT [\"./start.sh\"]\n")
            .file("start.sh", script)
            .severities()
    };
    let waits = "until nc -z db 5432; do\n  sleep 1\ndone\nexec server\n";
    assert_eq!(
        project(&format!("#!/bin/sh\n{waits}")),
        ["start.sh:3 ADD107 note"]
    );
    assert_eq!(
        project("#!/bin/sh\nalembic upgrade head\nexec server\n"),
        ["start.sh:2 ADD107 note"]
    );
    assert!(project(&format!("#!/bin/sh\ntrap 'exit 1' TERM\n{waits}")).is_empty());
    assert!(project("#!/bin/sh\nexport A=1\nexec server\n").is_empty());
}
