{{- /* What several files have in common. */ -}}

{{- /* The labels of the pods that limit. */ -}}
{{- define "sluice.labels" -}}
{{- if .Values.istio.labels -}}
{ {{- range $name, $value := .Values.istio.labels }}{{ quote $name }}: {{ quote $value }}, {{ end -}} }
{{- else -}}
{app: {{ .Values.istio.app }}}
{{- end -}}
{{- end }}

{{- /* The variables that a VM of Istio is given, and the names of those of Envoy Gateway: Redis' password,
and the secret of keyed hashes. */ -}}
{{- define "sluice.env" -}}
{{- $password := and (eq .Values.through "redis") .Values.redis.passwordEnv (not .Values.redis.cluster) -}}
{{- if $password }}{name: {{ quote .Values.redis.passwordEnv }}, valueFrom: HOST}{{ end -}}
{{- if .Values.config.hash_secret_env }}{{ if $password }}, {{ end -}}
{name: {{ quote .Values.config.hash_secret_env }}, valueFrom: HOST}{{ end -}}
{{- end }}
{{- define "sluice.keys" -}}
{{- $password := and (eq .Values.through "redis") .Values.redis.passwordEnv -}}
{{- if $password }}{{ quote .Values.redis.passwordEnv }}{{ end -}}
{{- if .Values.config.hash_secret_env }}{{ if $password }}, {{ end }}{{ quote .Values.config.hash_secret_env }}{{ end -}}
{{- end }}

{{- /* The cluster by which a limiter reaches Redis itself, with the bridge in it. */ -}}
{{- define "sluice.cluster" -}}
name: sluice-redis
type: {{ if .Values.redis.cluster }}STATIC{{ else }}STRICT_DNS{{ end }}
connect_timeout: 1s
upstream_config:
  name: envoy.filters.connection_pools.http.tcp
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.upstreams.http.tcp.v3.TcpConnectionPoolProto
typed_extension_protocol_options:
  envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
    "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
    explicit_http_config: {http2_protocol_options: {}}
    http_filters:
    - name: sluice-bridge
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm
        config:
          name: sluice-bridge
          root_id: sluice-bridge
          failure_policy: FAIL_RELOAD
          vm_config:
            vm_id: sluice-bridge
            runtime: envoy.wasm.runtime.v8
            # bridge/bridge.wasm, 1.6 KB: no proxy fetches or mounts anything for it.
            code: {local: {inline_bytes: AGFzbQEAAAABOglgAX8Bf2AFf39/f38Bf2ADf39/AX9gCH9/f39/f39/AX9gAn9/AGABfwBgA39/fwBgAn9/AX9gAAACWwMDZW52FnByb3h5X3NldF9idWZmZXJfYnl0ZXMAAQNlbnYZcHJveHlfc2VuZF9sb2NhbF9yZXNwb25zZQADA2VudhZwcm94eV9nZXRfYnVmZmVyX2J5dGVzAAEDCwoABAUAAgYHAAIIBQMBAAEGBwF/AUGAIAsHigEHBm1lbW9yeQIABm1hbGxvYwADF3Byb3h5X29uX2NvbnRleHRfY3JlYXRlAAQPcHJveHlfb25fZGVsZXRlAAUVcHJveHlfb25fcmVxdWVzdF9ib2R5AAcWcHJveHlfb25fcmVzcG9uc2VfYm9keQALF3Byb3h5X2FiaV92ZXJzaW9uXzBfMl8xAAwMAQIKqAgKWQICfwJ+AkBB/CAoAgBBB2pBeHEiAa0gAK18IgNC//8DfEIQiCIEPwAiAq1WBEAgA0KAgPz/D1YNASAEpyACa0AAQX9GDQELQfwgIAAgAWo2AgAgAQ8LQQALegEBfwJAIAFFDQBB/CBBgCEoAgA2AgACf0GEISgCACICBEAgAiEBQYQhDAELQRgQAyIBRQ0BQfwgIQJBgCELIAIoAgA2AgAgAUGIISgCADYCACABQgA3AgggASAANgIEIAFBADYCECABQRRqQQA6AABBiCEgATYCAAsLLwEBfyAAEAYiASgCACIABEAgASAAKAIANgIAIABBhCEoAgA2AgBBhCEgADYCAAsLJAECf0GIISEBA0AgASICKAIAIgEEQCABKAIEIABHDQELCyACC/kCAQV/IAAQBiEAIAEEQCAAKAIAIgJFBEBBniBBHkEIEAhBAQ8LIAEgAigCCCIATQRAIAIgACABazYCCEEADwsCQCAAIAFBBUlyDQAgAigCDA0AQQBBBRAJIgBFDQAgAC0AAA0AIAAQCiABQQVrRw0AQQBBAEEFQQBBABAAGkEADwtBACABEAkiBUUEQEHaIEEfQQgQCEEBDwsgAkEQaiEGQQAhAAJAAkADQAJAIAQgBWogACAFaiACKAIIIgMgASAAayIHIAMgB0kbIgP8CgAAIAIgAigCCCADazYCCCADIARqIQQgACADaiIAIAFGDQADQCACKAIMIgNBBEsgACABT3JFBEAgACAFai0AACEHIAIgA0EBajYCDCADIAZqIAc6AAAgAEEBaiEADAELCyAGLQAADQIgA0EFRw0BIAYQCiEDIAJBADYCDCACIAM2AggMAQsLIARBAE4NAQtBvSBBHEEMEAhBAQ8LQQBBACABIAUgBBAAGgtBAAsWAEHIASAAIAEgACABQQBBACACEAEaC1EBA38jAEEQayICJABB/CBBgCEoAgA2AgAgAEEAIAEgAkEMaiACQQhqEAIhACACKAIIIQMgAigCDCEEIAJBEGokAEEAIARBACABIANGGyAAGwsoACAAKAABIgBBGHQgAEGA/gNxQQh0ciAAQQh2QYD+A3EgAEEYdnJyC+oBAQR/IAFFBEBBAA8LIAFBgAhNBEBBjyEgAUEIdCABQYD+A3FBCHZyOwAAQQFBAEEAQYwhQQUQABpBAA8LAkBBASABEAkiBkUNACABIAFBCnZBBWxqQQVqEAMiBEUNACABIQIgBCEAA0AgASADTQRAQQFBACABIAQgACAEaxAAGkEADwUgAEEAOgACIABBADsAACAAIAJBgAggAkGACEkbIgU6AAQgACAFQQh2OgADIABBBWoiACADIAZqIAX8CgAAIAAgBWohACACQYAIayECIANBgAhqIQMMAQsACwALQYAgQR1BCBAIQQELAwABCwuMAQIAQYAgC3lzbHVpY2U6IG5vIG1lbW9yeSBmb3IgcmVwbGllcwBzbHVpY2U6IG5vIG1lbW9yeSBmb3IgYSBzdHJlYW0Ac2x1aWNlOiBhIGNvbXByZXNzZWQgbWVzc2FnZQBzbHVpY2U6IG5vIG1lbW9yeSBmb3IgYSBtZXNzYWdlAEH8IAsGoBAAAKAQAFYPdGFyZ2V0X2ZlYXR1cmVzBSsPbXV0YWJsZS1nbG9iYWxzKwtidWxrLW1lbW9yeSsIc2lnbi1leHQrD3JlZmVyZW5jZS10eXBlcysKbXVsdGl2YWx1ZQ==}}
    - name: envoy.filters.http.upstream_codec
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.filters.http.upstream_codec.v3.UpstreamCodec
{{- if and .Values.redis.tls.enabled (not .Values.redis.cluster) }}
{{ include "sluice.tls" . }}
{{- end }}
load_assignment:
  cluster_name: sluice-redis
  endpoints:
  - lb_endpoints:
{{- if .Values.redis.cluster }}
    - endpoint: {address: {envoy_internal_address: {server_listener_name: sluice-redis-proxy}}}
{{- else }}
{{- range .Values.redis.nodes }}
    - endpoint: {address: {socket_address: {address: {{ .host }}, port_value: {{ .port }}}}}
{{- end }}
{{- end }}
{{- end }}

{{- define "sluice.tls" -}}
transport_socket:
  name: envoy.transport_sockets.tls
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
{{- if and .Values.redis.tls.serverName (eq .Values.redis.tls.sanType "DNS") }}
    sni: {{ .Values.redis.tls.serverName }}
{{- end }}
    common_tls_context:
      validation_context:
        trusted_ca: {filename: {{ .Values.redis.tls.ca }}}
{{- if .Values.redis.tls.serverName }}
        match_typed_subject_alt_names:
        - {san_type: {{ .Values.redis.tls.sanType }}, matcher: {exact: {{ .Values.redis.tls.serverName }}}}
{{- end }}
{{- end }}

{{- /* A Redis Cluster, as Envoy follows it. */ -}}
{{- define "sluice.nodes" -}}
lb_policy: CLUSTER_PROVIDED
cluster_type:
  name: envoy.clusters.redis
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.clusters.redis.v3.RedisClusterConfig
    cluster_refresh_rate: 5s
    cluster_refresh_timeout: 1s
    redirect_refresh_threshold: 1
{{- end }}

{{- /* The labels of the metrics (docs/observability.md). */ -}}
{{- define "sluice.stats" -}}
stats_config:
  stats_tags:
  - {tag_name: rule, regex: '^wasmcustom\.sluice\.(rule\.([^.]+)\.)'}
  - {tag_name: limit, regex: '^wasmcustom\.sluice\.rule\.[^.]+\.(limit\.([^.]+)\.)'}
  - {tag_name: outcome, regex: '^wasmcustom\.sluice\.(?:rule\.[^.]+\.)?(outcome\.([^.]+)\.)'}
  - {tag_name: cause, regex: '^wasmcustom\.sluice\.redis\.(cause\.([^.]+)\.)'}
  - {tag_name: state, regex: '^wasmcustom\.sluice\.redis\.(state\.([^.]+)\.)'}
  - {tag_name: event, regex: '^wasmcustom\.sluice\.(?:lease|redis|overrides)\.(event\.([^.]+)\.)'}
  - {tag_name: rank, regex: '^wasmcustom\.sluice\.top_offenders\.(rank\.([^.]+)\.)'}
  - {tag_name: redis, regex: '^wasmcustom\.sluice\.redis\.(cluster\.([^.]+)\.)'}
  - {tag_name: kind, regex: '^wasmcustom\.sluice\.redis\.cluster\.[^.]+\.(kind\.([^.]+)\.)'}
  - {tag_name: version, regex: '^wasmcustom\.sluice\.(version\.(.+)\.)build_info$'}
  histogram_bucket_settings:
  - match: {prefix: wasmcustom.sluice.redis.round_trip_microseconds}
    buckets: [100, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 1000000]
{{- end }}

{{- /* What the access log says of a request (docs/observability.md). */ -}}
{{- define "sluice.log" -}}
start_time: "%START_TIME%"
client_ip: "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"
method: "%REQ(:METHOD)%"
authority: "%REQ(:AUTHORITY)%"
path: "%REQ(:PATH)%"
status: "%RESPONSE_CODE%"
sluice: "%FILTER_STATE(wasm.sluice:PLAIN)%"
rejected: "%FILTER_STATE(wasm.sluice.rejected:PLAIN)%"
details: "%RESPONSE_CODE_DETAILS%"
duration_ms: "%DURATION%"
upstream_ms: "%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%"
request_id: "%REQ(X-REQUEST-ID)%"
{{- end }}

{{- /* Connection manager: one path and one name for each header, and no large headers. */ -}}
{{- define "sluice.strict" -}}
normalize_path: true
merge_slashes: true
path_with_escaped_slashes_action: UNESCAPE_AND_REDIRECT
common_http_protocol_options: {headers_with_underscores_action: REJECT_REQUEST}
max_request_headers_kb: 16
{{- end }}

{{- /* Of several servers, the one that says it is the primary (deploy/relay/failover.yaml). */ -}}
{{- define "sluice.primary" -}}
health_checks:
- timeout: 1s
  interval: 1s
  unhealthy_interval: 0.5s
  no_traffic_interval: 1s
  unhealthy_threshold: 1
  healthy_threshold: 1
  # "ROLE", and the beginning of a primary's answer: an array whose first element is "master". The
  # check does not log in, so that no password is here: allow the default user this and nothing
  # else, ACL SETUSER default reset on nopass -@all +role
  tcp_health_check:
    send: {text: "524f4c450d0a"}
    receive: [{text: "24360d0a6d61737465720d0a"}]
# Without this, Envoy would send to any server when none is the primary.
common_lb_config: {healthy_panic_threshold: {value: 0}}
{{- end }}

{{- /* The plugin's configuration but for "redis". */ -}}
{{- define "sluice.config" -}}
{{- range $name, $value := .Values.config }}
{{- if ne $name "redis" }}
{{ $name }}:
{{- toYaml $value | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The plugin's "redis", but for the cluster: another one that a configuration names is left out. */ -}}
{{- define "sluice.redis" -}}
{{- with omit (default dict .Values.config.redis) "cluster" }}
{{ toYaml . }}
{{- end }}
{{- if and (eq .Values.through "redis") .Values.redis.passwordEnv (not .Values.redis.cluster) }}
{{- if .Values.redis.username }}
username: {{ .Values.redis.username }}
{{- end }}
password_env: {{ .Values.redis.passwordEnv }}
{{- end }}
{{- end }}

{{- /* The Envoy of a relay. */ -}}
{{- define "sluice.relay" -}}
# The relay of deploy/relay/relay.yaml for a mesh, which encrypts and says who may ask
# (AuthorizationPolicy), or behind a NetworkPolicy.
bootstrap_extensions:
- name: envoy.bootstrap.internal_listener
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.bootstrap.internal_listener.v3.InternalListener

admin:
  address: {socket_address: {address: 127.0.0.1, port_value: 9901}}

static_resources:
  listeners:
  - name: relay
    # For drain_listeners?inboundonly: redis_proxy must not drain along with it.
    traffic_direction: INBOUND
    address: {socket_address: {address: 0.0.0.0, port_value: 9000}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: relay
          codec_type: HTTP2
          # Streams last for hours, and may be idle.
          stream_idle_timeout: 0s
          request_headers_timeout: 5s
          http2_protocol_options:
            max_concurrent_streams: 1000
            connection_keepalive: {interval: 30s, timeout: 5s}
          route_config:
            virtual_hosts:
            - name: relay
              domains: ["*"]
              routes:
              - match: {path: /sluice.Redis/Stream, grpc: {}}
                route:
                  cluster: redis_proxy
                  timeout: 0s
                  # The body of this POST goes out as it is, on a TCP connection of its own.
                  upgrade_configs: [{upgrade_type: CONNECT, connect_config: {allow_post: true}}]
          http_filters:
          - name: envoy.filters.http.lua
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
              default_source_code:
                inline_string: |
                  -- gRPC puts five bytes in front of each message: a compression flag and the length. They come off
                  -- here, and a message is passed on as it comes, so that no stated length costs memory.
                  function envoy_on_request(stream)
                    local header, left = "", 0
                    for chunk in stream:bodyChunks() do
                      local size = chunk:length()
                      if left >= size then
                        left = left - size -- the middle of a message
                      else
                        local bytes, out, at = chunk:getBytes(0, size), {}, 1
                        while at <= size do
                          if left == 0 then
                            local n = math.min(5 - #header, size - at + 1)
                            header, at = header .. bytes:sub(at, at + n - 1), at + n
                            if header:byte(1) ~= 0 then -- compressed: Redis' own protocol error ends the stream
                              header, out, at = "", {"*-\r\n"}, size + 1
                              stream:logWarn("sluice relay: a peer sends compressed messages")
                            elseif #header == 5 then
                              local _, a, b, c, d = header:byte(1, 5)
                              header, left = "", ((a * 256 + b) * 256 + c) * 256 + d
                            end
                          else
                            local n = math.min(left, size - at + 1)
                            out[#out + 1] = bytes:sub(at, at + n - 1)
                            at, left = at + n, left - n
                          end
                        end
                        chunk:setBytes(table.concat(out))
                      end
                    end
                  end
                  -- What Redis answers goes back in messages of at most 1024 bytes, as a limiter reads some 20 replies
                  -- at a time.
                  function envoy_on_response(stream)
                    for chunk in stream:bodyChunks() do
                      local size = chunk:length()
                      if size > 0 then
                        local out = {}
                        for at = 0, size - 1, 1024 do
                          local n = math.min(1024, size - at)
                          out[#out + 1] = string.char(0, 0, 0, math.floor(n / 256), n % 256)
                          out[#out + 1] = chunk:getBytes(at, n)
                        end
                        chunk:setBytes(table.concat(out))
                      end
                    end
                  end
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router

  # For Prometheus and probes: the metrics, and /ready. Nothing else of the admin interface is here.
  - name: stats
    address: {socket_address: {address: 0.0.0.0, port_value: 9902}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: stats
          route_config:
            virtual_hosts:
            - name: stats
              domains: ["*"]
              routes:
              - match: {path: /stats/prometheus, headers: [{name: ":method", string_match: {exact: GET}}]}
                route: {cluster: admin}
              - match: {path: /ready, headers: [{name: ":method", string_match: {exact: GET}}]}
                route: {cluster: admin}
          http_filters:
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router

  # A preStop hook that needs no shell: GET /drain takes no new streams, and answers when those there
  # are have had 15 s to rotate away. "inboundonly": redis_proxy must go on. The NetworkPolicy lets
  # kubelet alone come here.
  - name: drain
    address: {socket_address: {address: 0.0.0.0, port_value: 9903}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: drain
          route_config:
            virtual_hosts:
            - name: drain
              domains: ["*"]
              routes:
              - match: {path: /drain}
                direct_response: {status: 200}
          http_filters:
          - name: envoy.filters.http.lua
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
              default_source_code:
                inline_string: |
                  function envoy_on_request(request)
                    local path = "/drain_listeners?graceful&inboundonly"
                    request:httpCall("admin", {[":method"] = "POST", [":path"] = path, [":authority"] = "relay"}, "", 5000)
                  end
          - name: envoy.filters.http.fault
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault
              delay: {fixed_delay: 15s, percentage: {numerator: 100}}
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router

  - name: redis_proxy
    internal_listener: {}
    filter_chains:
    - filters:
      - name: envoy.filters.network.redis_proxy
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.redis_proxy.v3.RedisProxy
          stat_prefix: redis
{{- if .Values.redis.cluster }}
          # Well below redis.timeout (50ms): replies come in order, so what a node that
          # hangs owes holds up those of the others.
          settings: {op_timeout: 0.02s, enable_redirection: true}
{{- else }}
          # A connection to Redis serves many limiters. It is given up when Redis owes a reply for
          # so long, not after one limiter's redis.timeout.
          settings: {op_timeout: 1s}
{{- end }}
          prefix_routes: {catch_all_route: {cluster: redis}}

  clusters:
  - name: admin
    type: STATIC
    load_assignment:
      cluster_name: admin
      endpoints:
      - lb_endpoints:
        - endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 9901}}}

  - name: redis_proxy
    type: STATIC
    load_assignment:
      cluster_name: redis_proxy
      endpoints:
      - lb_endpoints:
        - endpoint: {address: {envoy_internal_address: {server_listener_name: redis_proxy}}}

  - name: redis
{{- if .Values.redis.cluster }}
    connect_timeout: 1s
{{- include "sluice.nodes" . | nindent 4 }}
{{- else }}
    type: STRICT_DNS
    connect_timeout: 1s
{{- end }}
{{- if .Values.redis.passwordSecret.name }}
    typed_extension_protocol_options:
      envoy.filters.network.redis_proxy:
        "@type": type.googleapis.com/envoy.extensions.filters.network.redis_proxy.v3.RedisProtocolOptions
{{- if .Values.redis.username }}
        auth_username: {inline_string: {{ .Values.redis.username }}}
{{- end }}
        # Read for each connection.
        auth_password: {filename: /etc/sluice/redis/password}
{{- end }}
{{- if .Values.redis.tls.enabled }}
{{- include "sluice.tls" . | nindent 4 }}
{{- end }}
{{- if gt (len .Values.redis.nodes) 1 }}
{{- if not .Values.redis.cluster }}
{{- include "sluice.primary" . | nindent 4 }}
{{- end }}
{{- end }}
    load_assignment:
      cluster_name: redis
      endpoints:
      - lb_endpoints:
{{- range .Values.redis.nodes }}
        - endpoint: {address: {socket_address: {address: {{ .host }}, port_value: {{ .port }}}}}
{{- end }}
{{- end }}
