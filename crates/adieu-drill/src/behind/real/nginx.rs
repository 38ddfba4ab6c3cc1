//! The configuration of nginx: an upstream with keep-alive connections, and a log that names each attempt.

use std::path::Path;

use super::{Config, NUMBER};

pub(super) const FILE: &str = "nginx.conf";
pub(super) const LOG: &str = "access.log";

pub(super) fn command(program: &Path, dir: &Path) -> Vec<String> {
    let file = dir.join(FILE);
    let words = [
        program,
        // Without it the file of the distribution is opened first, which only root may write.
        Path::new("-e"),
        Path::new("stderr"),
        Path::new("-p"),
        dir,
        Path::new("-c"),
        &file,
    ];
    words.map(|word| word.display().to_string()).to_vec()
}

pub(super) fn config(config: &Config, dir: &Path) -> String {
    let servers: String = config
        .routes
        .iter()
        .map(|route| format!("    server {};\n", route.address))
        .collect();
    let servers = match servers.as_str() {
        // An upstream without a server is an error of the configuration.
        "" => "    server 127.0.0.1:9 down;\n".to_owned(),
        _ => servers,
    };
    let pool = &config.profile.pool;
    let tries = 1 + config.profile.retries();
    // The workers of a master that root started cannot enter the private directory as another user.
    let user = match rustix::process::geteuid().is_root() {
        true => "user root root;\n",
        false => "",
    };
    format!(
        "{user}daemon off;
worker_processes 1;
pid {dir}/nginx.pid;
error_log stderr error;
events {{ worker_connections 4096; }}
http {{
  log_format drill '$http_x_request_id|$status|$upstream_addr|$upstream_status|$upstream_connect_time|$upstream_header_time';
  access_log {dir}/{LOG} drill;
  client_body_temp_path {dir}/body;
  proxy_temp_path {dir}/proxy;
  fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi;
  scgi_temp_path {dir}/scgi;
  client_max_body_size 0;
  upstream instances {{
{servers}    keepalive {connections};
    keepalive_timeout {idle}ms;
  }}
  server {{
    listen {listen};
    location = {NUMBER} {{
      access_log off;
      add_header x-adieu-drill-configuration {number};
      return 200;
    }}
    location / {{
      proxy_pass http://instances;
      proxy_http_version 1.1;
      proxy_set_header Connection \"\";
      proxy_set_header Host $http_host;
      proxy_read_timeout {timeout}ms;
      proxy_next_upstream error timeout;
      proxy_next_upstream_tries {tries};
    }}
  }}
}}
",
        dir = dir.display(),
        connections = pool.connections,
        idle = pool.idle_timeout.as_millis(),
        listen = config.listen,
        number = config.number,
        timeout = config.timeout.as_millis(),
    )
}
