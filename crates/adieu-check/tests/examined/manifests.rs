//! Pods, compose files, units and the settings of servers.

use crate::support::Project;

predictions! {
    compose_by_another_name: Project::new()
        .file("deploy/stack.yml", "version: '3'\nservices:\n  web:\n    image: shop:1\n    command: gunicorn app:app --graceful-timeout 60\n    stop_grace_period: 20s\n")
    => ["deploy/stack.yml:6 ADD501"];
    services_of_something_else_clean: Project::new()
        .file("ci.yml", "services:\n  - postgres\n")
        .file("app.yml", "services:\n  mailer:\n    class: Mailer\n  web:\n    image: shop:1\n    command: gunicorn app:app --graceful-timeout 60\n")
        .file("broken.yml", "services:\n  web: [\n")
        .file("template.yml", "services:\n  web:\n    image: {{ image }}\n    command: gunicorn app:app --graceful-timeout 60\n")
    => [];
    pod_uvicorn: Project::new()
        .file("k.yaml", r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  template:
    spec:
      terminationGracePeriodSeconds: 30
      containers:
        - name: web
          image: shop:1
          command: [uvicorn, "app:app", --timeout-graceful-shutdown, "60"]
          ports: [{containerPort: 8000}]
          readinessProbe: {httpGet: {path: /ready, port: 8000}}
          livenessProbe: {httpGet: {path: /live, port: 8000}}
"#)
    => ["k.yaml:8 ADD501"];
    pod_gunicorn: Project::new()
        .file("k.yaml", r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  template:
    spec:
      terminationGracePeriodSeconds: 20
      containers:
        - name: web
          image: shop:1
          command: [gunicorn, "app:app", "--graceful-timeout=45"]
          ports: [{containerPort: 8000}]
          readinessProbe: {httpGet: {path: /ready, port: 8000}}
          livenessProbe: {httpGet: {path: /live, port: 8000}}
"#)
    => ["k.yaml:8 ADD501"];
    pod_gunicorn_default: Project::new()
        .file("k.yaml", r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  template:
    spec:
      terminationGracePeriodSeconds: 20
      containers:
        - name: web
          image: shop:1
          command: [gunicorn, "app:app"]
          ports: [{containerPort: 8000}]
          readinessProbe: {httpGet: {path: /ready, port: 8000}}
          livenessProbe: {httpGet: {path: /live, port: 8000}}
"#)
    => ["k.yaml:8 ADD501"];
    pod_ok: Project::new()
        .file("k.yaml", r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  template:
    spec:
      terminationGracePeriodSeconds: 90
      containers:
        - name: web
          image: shop:1
          command: [gunicorn, "app:app", "--graceful-timeout=45"]
          ports: [{containerPort: 8000}]
          readinessProbe: {httpGet: {path: /ready, port: 8000}}
          livenessProbe: {httpGet: {path: /live, port: 8000}}
          lifecycle: {preStop: {sleep: {seconds: 10}}}
"#)
    => [];
    pod_prestop: Project::new()
        .file("k.yaml", r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  template:
    spec:
      terminationGracePeriodSeconds: 50
      containers:
        - name: web
          image: shop:1
          command: [gunicorn, "app:app", "--graceful-timeout=45"]
          ports: [{containerPort: 8000}]
          readinessProbe: {httpGet: {path: /ready, port: 8000}}
          livenessProbe: {httpGet: {path: /live, port: 8000}}
          lifecycle: {preStop: {exec: {command: ["sh", "-c", "sleep 10"]}}}
"#)
    => ["k.yaml:8 ADD301"];
    pod_prestop_long: Project::new()
        .file("k.yaml", r"apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  template:
    spec:
      terminationGracePeriodSeconds: 30
      containers:
        - name: web
          image: shop:1
          command: [app]
          ports: [{containerPort: 8000}]
          readinessProbe: {httpGet: {path: /ready, port: 8000}}
          livenessProbe: {httpGet: {path: /live, port: 8000}}
          lifecycle: {preStop: {sleep: {seconds: 40}}}
")
    => ["k.yaml:8 ADD301"];
    pod_wrapper: Project::new()
        .file("k.yaml", r"apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  template:
    spec:
      terminationGracePeriodSeconds: 30
      containers:
        - name: web
          image: shop:1
          command: [npm, start]
          ports: [{containerPort: 8000}]
          readinessProbe: {httpGet: {path: /ready, port: 8000}}
          livenessProbe: {httpGet: {path: /live, port: 8000}}
")
    => ["k.yaml:12 ADD105"];
    pod_kustomize: Project::new()
        .file("base/k.yaml", r"apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  template:
    spec:
      terminationGracePeriodSeconds: 30
      containers:
        - name: web
          image: shop:1
          command: [app]
          ports: [{containerPort: 8000}]
          readinessProbe: {httpGet: {path: /ready, port: 8000}}
          livenessProbe: {httpGet: {path: /live, port: 8000}}
          lifecycle: {preStop: {sleep: {seconds: 40}}}
")
        .file("overlay/patch.yaml", r"apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      terminationGracePeriodSeconds: 60
")
    => [];
    pod_drop: Project::new()
        .file("k.yaml", r"apiVersion: apps/v1
kind: Deployment
metadata: {name: w}
spec:
  replicas: 1
  strategy: {rollingUpdate: {maxUnavailable: 1}}
  template:
    spec:
      containers:
        - {name: w, image: x}
")
    => ["k.yaml:6 ADD304"];
    helm: Project::new()
        .file("chart/Chart.yaml", r"apiVersion: v2
name: x
version: 1
")
        .file("chart/values.yaml", r"terminationGracePeriodSeconds: 5
lifecycle: {preStop: {sleep: {seconds: 20}}}
")
        .file("chart/templates/d.yaml", r"apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      terminationGracePeriodSeconds: {{ .Values.t }}
")
    => [];
    compose_init: Project::new()
        .file("compose.yaml", r"services:
  web:
    image: shop
    command: sh -c 'migrate && python app.py'
    stop_grace_period: 30s
")
    => ["compose.yaml:4 ADD202"];
    compose_none: Project::new()
        .file("compose.yaml", r"services:
  web:
    image: shop
")
    => ["compose.yaml:2 ADD201"];
    compose_wrap: Project::new()
        .file("docker-compose.yml", r"services:
  web:
    image: shop
    command: uv run app
    stop_grace_period: 30s
")
    => ["docker-compose.yml:4 ADD105"];
    compose_ok: Project::new()
        .file("docker-compose.yml", r"x-base: &b
  stop_grace_period: 1m
  init: true
services:
  web:
    <<: *b
    image: shop
    command: gunicorn a:b --graceful-timeout 50
  redis: {image: redis}
")
    => [];
    unit_bad: Project::new()
        .file("a.service", r"[Unit]
Description=x
[Service]
ExecStart=/usr/bin/app
KillMode=none
TimeoutStopSec=2
")
        .file("b.service", r"[Service]
Type=notify
ExecStart=/usr/bin/node server.js
")
    => ["a.service:5 ADD401", "a.service:6 ADD402", "b.service:2 ADD403"];
    unit_ok: Project::new()
        .file("a.service", r"[Service]
Type=notify
ExecStart=/usr/bin/gunicorn app:app --graceful-timeout 30
TimeoutStopSec=1min 10s
KillMode=mixed
")
    => [];
    gunicorn_conf: Project::new()
        .file("gunicorn.conf.py", r"graceful_timeout = 90
bind = 'x'
")
        .file("Dockerfile", r#"FROM python:3.13
CMD ["gunicorn", "app:app"]
"#)
        .file("compose.yaml", r"services:
  web:
    build: .
    stop_grace_period: 60s
")
    => ["compose.yaml:4 ADD501"];
    uvicorn_code: Project::new()
        .file("main.py", r"import uvicorn
if __name__ == '__main__':
    uvicorn.run('a:b', timeout_graceful_shutdown=90)
")
        .file("Dockerfile", r#"FROM python:3.13
CMD ["python", "main.py"]
"#)
        .file("compose.yaml", r"services:
  web:
    build: .
    stop_grace_period: 60s
")
    => ["compose.yaml:4 ADD501"];
    unit_celery_flag: Project::new()
        .file("w.service", r"[Service]
ExecStart=/usr/bin/celery -A shop worker --time-limit=3600
TimeoutStopSec=60
")
    => ["w.service:3 ADD501"];
    unit_celery_beat: Project::new()
        .file("w.service", r"[Service]
ExecStart=/usr/bin/celery -A shop beat
TimeoutStopSec=60
")
        .file("celeryconfig.py", r"task_time_limit = 30 * 60
")
    => [];
    compose_celery_conf: Project::new()
        .file("shop/celery.py", r"from celery import Celery
app = Celery('shop')
app.conf.task_time_limit = 30 * 60
")
        .file("compose.yaml", r"services:
  w:
    image: x
    command: celery -A shop worker
    stop_grace_period: 1m
")
    => ["compose.yaml:5 ADD501"];
    compose_celery_update: Project::new()
        .file("shop/celery.py", r"from celery import Celery
app = Celery('shop')
app.conf.update(task_time_limit=300, timezone='UTC')
")
        .file("compose.yaml", r"services:
  w:
    image: x
    command: python -m celery -A shop worker
    stop_grace_period: 1m
  v:
    image: x
    command: celery -A shop worker
    stop_grace_period: 10m
")
    => ["compose.yaml:5 ADD501"];
    compose_celery_remap: Project::new()
        .file("celeryconfig.py", r"task_time_limit = 3000
worker_soft_shutdown_timeout = 20
")
        .file("compose.yaml", r"services:
  w:
    image: x
    command: celery -A shop worker
    environment: {REMAP_SIGTERM: SIGQUIT}
    stop_grace_period: 30s
  v:
    image: x
    command: celery -A shop worker
    environment: {REMAP_SIGTERM: SIGQUIT}
    stop_grace_period: 15s
")
    => ["compose.yaml:11 ADD501"];
    compose_name_clean: Project::new()
        .file("settings.py", r"task_time_limit = 3000
")
        .file("compose.yaml", r"services:
  w:
    image: x
    command: celery -A shop worker
    stop_grace_period: 30s
")
    => [];
    compose_entry_args_clean: Project::new()
        .file("Dockerfile", r#"FROM debian:12
ENTRYPOINT ["python", "manage.py"]
"#)
        .file("compose.yaml", r"services:
  w:
    build: .
    command: make
    stop_grace_period: 30s
")
    => [];
    compose_through_entry: Project::new()
        .file("Dockerfile", r#"FROM debian:12
ENTRYPOINT ["./entry.sh"]
CMD ["python", "app.py"]
"#)
        .file("entry.sh", r#"#!/bin/sh
exec "$@"
"#)
        .file("compose.yaml", r"services:
  w:
    build: .
    command: npm start
    stop_grace_period: 30s
")
    => ["compose.yaml:4 ADD105"];
    pod_args_unknown: Project::new()
        .file("k.yaml", r"apiVersion: apps/v1
kind: Deployment
metadata: {name: w}
spec:
  template:
    spec:
      containers:
        - {name: w, image: x/y, args: [make, it]}
")
    => [];
    pod_statefulset_partition: Project::new()
        .file("k.yaml", r"apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: w}
spec:
  minAvailable: 0
")
    => ["k.yaml:5 ADD304"];
    unit_overlay: Project::new()
        .file("app.service", r"[Service]
ExecStart=/usr/bin/app
")
        .file("app.service.d/stop.conf", r"[Service]
KillMode=none
")
        .file("nginx.conf", r"KillMode=none
")
    => ["app.service.d/stop.conf:2 ADD401"];
    pod_that_prepares_itself_clean: Project::new()
        .file("k.yaml", r"apiVersion: apps/v1
kind: Deployment
metadata: {name: w}
spec:
  replicas: 2
  strategy: {rollingUpdate: {maxUnavailable: 50%}}
  template:
    spec:
      initContainers:
        - {name: m, image: x, command: [npm, run, migrate]}
      containers:
        - {name: w, image: x}
")
    => [];
}
