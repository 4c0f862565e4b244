# One member of the service demo on each client: `nomad job run demo.nomad.hcl`. coordd and the
# commands of --exec are on the clients (the package), and so is a Consul agent on each.
job "demo" {
  type = "system"

  # One client after the other, once the member before is healthy.
  update {
    max_parallel     = 1
    health_check     = "checks"
    min_healthy_time = "10s"
    healthy_deadline = "2m"
  }

  group "member" {
    network {
      port "http" {}
    }

    # A member that was killed is back under its id within its lease, and resumes its items.
    restart {
      attempts = 10
      interval = "1m"
      delay    = "1s"
      mode     = "delay"
    }

    task "coordd" {
      # On the host, beside its Consul agent. Nomad may end what a killed member leaves, the guard
      # process included: then nobody hands its items over, and they wait for its lease.
      driver = "raw_exec"

      # A clean stop: its --stop-timeout, and what the hand-over takes.
      kill_signal  = "SIGTERM"
      kill_timeout = "60s"

      config {
        command = "/usr/bin/coordd"
        args    = ["run", "--exec", "exec sleep 1000000"]
      }

      env {
        COORDD_SERVICE    = "demo"
        COORDD_ID         = "${node.unique.name}"
        COORDD_HTTP       = "127.0.0.1:${NOMAD_PORT_http}"
        COORDD_KEEP_ITEMS = "1m"
        RUNTIME_DIRECTORY = "/run/coordd-demo"
      }

      service {
        name     = "demo-page"
        port     = "http"
        address  = "127.0.0.1"
        provider = "consul"

        # Not healthy: no lease, so nothing runs here.
        check {
          type     = "http"
          path     = "/healthz"
          interval = "5s"
          timeout  = "2s"
        }
      }

      resources {
        cpu    = 200
        memory = 256
      }
    }
  }
}
