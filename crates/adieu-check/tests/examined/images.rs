//! Images: their stages, their scripts and what these start.

use crate::support::Project;

predictions! {
    image_entry_uv: Project::new()
        .file("Dockerfile", r#"FROM debian:12
COPY entry.sh /entry.sh
ENTRYPOINT ["/entry.sh"]
CMD ["uv", "run", "app"]
"#)
        .file("entry.sh", r#"#!/bin/sh
set -e
exec "$@"
"#)
    => ["Dockerfile:4 ADD105"];
    image_entry_npm: Project::new()
        .file("Dockerfile", r#"FROM debian:12
COPY entry.sh /entry.sh
ENTRYPOINT ["/entry.sh"]
CMD ["npm", "start"]
"#)
        .file("entry.sh", r#"#!/bin/sh
set -e
exec "$@"
"#)
    => ["Dockerfile:4 ADD105"];
    image_entry_pdm: Project::new()
        .file("Dockerfile", r#"FROM debian:12
COPY entry.sh /entry.sh
ENTRYPOINT ["/entry.sh"]
CMD ["pdm", "run", "app"]
"#)
        .file("entry.sh", r#"#!/bin/sh
if [ "$MIGRATE" ]; then ./migrate; fi
exec tini -- "$@"
"#)
    => ["Dockerfile:4 ADD105"];
    image_entry_shell_cmd: Project::new()
        .file("Dockerfile", r#"FROM debian:12
COPY entry.sh /entry.sh
ENTRYPOINT ["/entry.sh"]
CMD python app.py
"#)
        .file("entry.sh", r#"#!/bin/sh
set -e
exec "$@"
"#)
    => ["Dockerfile:4 ADD101"];
    image_entry_shc: Project::new()
        .file("Dockerfile", r#"FROM debian:12
COPY entry.sh /entry.sh
ENTRYPOINT ["/entry.sh"]
CMD ["sh", "-c", "python app.py"]
"#)
        .file("entry.sh", r#"#!/bin/sh
set -e
exec "$@"
"#)
    => ["Dockerfile:4 ADD101"];
    image_entry_args_clean: Project::new()
        .file("Dockerfile", r#"FROM debian:12
COPY entry.sh /entry.sh
ENTRYPOINT ["/entry.sh"]
CMD ["run", "npm"]
"#)
        .file("entry.sh", r#"#!/bin/sh
exec python manage.py "$@"
"#)
    => [];
    image_entry_ok_clean: Project::new()
        .file("Dockerfile", r#"FROM debian:12
COPY entry.sh /entry.sh
ENTRYPOINT ["/entry.sh"]
CMD ["python", "app.py"]
"#)
        .file("entry.sh", r#"#!/bin/sh
set -e
exec "$@"
"#)
    => [];
    image_tini_uv: Project::new()
        .file("Dockerfile", r#"FROM debian:12
ENTRYPOINT ["tini", "--"]
CMD ["uv", "run", "app"]
"#)
    => ["Dockerfile:3 ADD105"];
    image_tini_shell_cmd: Project::new()
        .file("Dockerfile", r#"FROM debian:12
ENTRYPOINT ["tini", "--"]
CMD python app.py
"#)
    => ["Dockerfile:3 ADD101"];
    image_entry_reset: Project::new()
        .file("Dockerfile", r"FROM debian:12
ENTRYPOINT []
CMD python app.py
")
    => ["Dockerfile:3 ADD101"];
    image_multi: Project::new()
        .file("Dockerfile", r#"FROM python:3.13-slim AS base
ENTRYPOINT python app.py
FROM rust:1 AS build
RUN cargo build
CMD ["cargo", "run"]
FROM base
COPY --from=build /x /x
"#)
    => ["Dockerfile:2 ADD101"];
    image_multi_trap: Project::new()
        .file("Dockerfile", r#"FROM node:22 AS build
RUN npm ci
CMD npm start
FROM gcr.io/distroless/nodejs22
COPY --from=build /app /app
CMD ["server.js"]
"#)
    => [];
    image_multi_health: Project::new()
        .file("Dockerfile", r#"FROM python:3.13-slim AS base
FROM base AS final
HEALTHCHECK CMD curl -f http://localhost/
CMD ["python", "app.py"]
"#)
    => ["Dockerfile:3 ADD104"];
    image_heredoc: Project::new()
        .file("Dockerfile", r#"FROM python:3.13-slim
RUN <<EOF
apt-get update
apt-get install -y curl
CMD python bad.py
EOF
HEALTHCHECK CMD curl -f http://localhost/
CMD ["python", "app.py"]
"#)
    => [];
    image_json_shc: Project::new()
        .file("Dockerfile", r#"FROM python:3.13
ENTRYPOINT ["/bin/bash", "-lc", "python app.py"]
"#)
    => ["Dockerfile:2 ADD101"];
    image_json_shc_exec: Project::new()
        .file("Dockerfile", r#"FROM python:3.13
CMD ["bash", "-c", "cd /app && exec python app.py"]
"#)
    => [];
    image_stop: Project::new()
        .file("Dockerfile", r#"FROM python:3.13
STOPSIGNAL SIGKILL
CMD ["python", "app.py"]
"#)
    => ["Dockerfile:2 ADD103"];
    script_exec_wrapper: Project::new()
        .file("Dockerfile", r#"FROM debian:12
ENTRYPOINT ["./start.sh"]
"#)
        .file("start.sh", r"#!/bin/sh
set -e
exec uv run app
")
    => ["start.sh:3 ADD105"];
    image_shift_heredoc: Project::new()
        .file("start.sh", r"#!/bin/sh
x=$((1<<3))
python app.py
")
        .file("Dockerfile", r#"FROM debian:12
CMD ["./start.sh"]
"#)
    => ["start.sh:3 ADD102"];
    image_inner_shc: Project::new()
        .file("Dockerfile", r#"FROM debian:12
ENTRYPOINT ["tini", "--", "sh", "-c", "migrate && uv run app"]
"#)
    => ["Dockerfile:2 ADD101", "Dockerfile:2 ADD105"];
    image_of_an_argument: Project::new()
        .file("Dockerfile", r#"ARG V=3.13
FROM python:${V}-slim
HEALTHCHECK CMD ["curl", "-f", "http://localhost"]
CMD ["python", "a.py"]
"#)
    => ["Dockerfile:3 ADD104"];
    image_with_a_comment_between_clean: Project::new()
        .file("Dockerfile", r#"FROM debian:12
RUN apt-get update && \
  # why
  apt-get install -y curl
HEALTHCHECK --interval=5s CMD curl -f http://localhost
CMD ["python", \
  "a.py"]
"#)
    => [];
    image_in_small_letters: Project::new()
        .file("Dockerfile", r"from debian:12
cmd python a.py
")
    => ["Dockerfile:2 ADD101"];
}
