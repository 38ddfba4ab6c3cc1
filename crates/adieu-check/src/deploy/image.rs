//! What is known of images by their names.

/// Images without curl and wget, or without anything.
pub(crate) fn lacks(image: &str, tool: &str) -> bool {
    let image = image.to_ascii_lowercase();
    let bare = image == "scratch" || image.contains("distroless") || image.contains("chainguard");
    let slim = image.contains("slim");
    // Alpine has a small wget and no curl.
    let alpine = image.contains("alpine");
    let plain_debian = ["debian", "ubuntu"]
        .iter()
        .any(|name| image == *name || image.starts_with(&format!("{name}:")));
    match tool {
        "curl" => bare || slim || alpine || plain_debian,
        "wget" => bare || slim || plain_debian,
        _ => bare,
    }
}

/// The name of an image without its registry and its tag.
pub(crate) fn bare(image: &str) -> &str {
    let name = image.rsplit('/').next().unwrap_or(image);
    name.split([':', '@']).next().unwrap_or(name)
}

/// Well-known software that stops on its own terms.
pub(crate) fn is_infrastructure(image: &str) -> bool {
    [
        "postgres",
        "mysql",
        "mariadb",
        "redis",
        "valkey",
        "mongo",
        "rabbitmq",
        "nats",
        "kafka",
        "zookeeper",
        "elasticsearch",
        "opensearch",
        "nginx",
        "traefik",
        "caddy",
        "haproxy",
        "memcached",
        "minio",
        "prometheus",
        "grafana",
        "adminer",
        "pgadmin4",
        "mailhog",
        "jaeger",
        "vault",
        "consul",
        "etcd",
        "clickhouse-server",
        "influxdb",
        "loki",
        "localstack",
        "keycloak",
        "busybox",
        "alpine",
    ]
    .contains(&bare(image))
}
