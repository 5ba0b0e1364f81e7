package metrics

// nativeAndExemplars and conventions are the end of the page, with ~ for a backquote.
const nativeAndExemplars = `
Those that are native, too, are told as native histograms (factor 1.1, at most 100 buckets) to a Prometheus that asks for protobuf
(~--enable-feature=native-histograms~). Gaps between tokens are not: there are hundreds of them in a request, and a native bucket costs several times a classic one.
In the OpenMetrics format, which Prometheus asks for by itself, the buckets of ~warmpath_ttft_seconds~ and ~warmpath_e2e_seconds~ have exemplars: the
~trace_id~ of the last sampled request that fell into them ([TRACES.md](TRACES.md)).
`

// conventions maps the names of OpenTelemetry's conventions for generative AI, 1.41, to ours.
const conventions = `
## OpenTelemetry's names

| OpenTelemetry (generative AI, 1.41) | here |
|---|---|
| ~gen_ai.server.request.duration~, ~gen_ai.client.operation.duration~ | ~warmpath_e2e_seconds~ (answered requests only; failed ones are in ~warmpath_requests_total~) |
| ~gen_ai.server.time_to_first_token~, ~gen_ai.client.operation.time_to_first_chunk~ | ~warmpath_ttft_seconds~ |
| ~gen_ai.server.time_per_output_token~, ~gen_ai.client.operation.time_per_output_chunk~ | ~warmpath_itl_seconds~ (each gap, where OpenTelemetry's is a request's mean) |
| ~gen_ai.client.token.usage~ with ~gen_ai.token.type~ input, output | ~warmpath_prompt_tokens_total~, ~warmpath_completion_tokens_total~; by worker ~warmpath_worker_tokens_total~ |
| ~gen_ai.request.model~ | the label ~model~ |
| ~gen_ai.operation.name~ | the label ~api~ (chat, completions, messages, responses, ...) |
| ~error.type~ | the labels ~outcome~ and ~class~ |
| ~server.address~ | the label ~worker~ |

## Prometheus and Grafana

~packaging/prometheus/~ has recording rules, alerts that need them, and tests of the alerts; ~packaging/grafana/warmpath.json~ is a dashboard to import. ~make promtool~
checks all of it: the rules' syntax, the alerts' tests, every query of the dashboard, and that a router under load tells each metric that is asked for.

    rule_files: [warmpath-recording.yaml, warmpath-alerts.yaml]
    scrape_configs:
      - job_name: warmpath
        static_configs: [{targets: ["router:8801"]}]
        authorization: {credentials_file: /etc/prometheus/warmpath-token} # a token of the role read (SECURITY.md)
`
