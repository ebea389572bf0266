# The image: one static program, certificates and a folder for temporary files. docs/deploy.md says how to build and run it.

FROM --platform=$BUILDPLATFORM node:22-bookworm-slim AS page
WORKDIR /src/internal/webui/page
COPY internal/webui/page/package.json internal/webui/page/package-lock.json internal/webui/page/.npmrc ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY clients/src /src/clients/src
COPY internal/webui /src/internal/webui
RUN npm run build

FROM --platform=$BUILDPLATFORM golang:1.26-bookworm AS program
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
COPY --from=page /src/internal/webui/dist internal/webui/dist
ARG TARGETOS
ARG TARGETARCH
# The repository is not part of the context: git describe --tags --always --dirty, and git rev-parse HEAD.
ARG VERSION
ARG REVISION
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -buildvcs=false \
      -ldflags "-s -w -X github.com/arcoscribe/throughline/internal/app.linkedVersion=$VERSION \
        -X github.com/arcoscribe/throughline/internal/app.linkedRevision=$REVISION" \
      -o /out/throughline ./cmd/throughline \
    && install -d -m 1777 /out/tmp && install -D -m 644 LICENSE /out/licenses/throughline

FROM scratch
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="Throughline" \
      org.opencontainers.image.source="https://github.com/arcoscribe/throughline" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
COPY --from=program /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=program /out /
USER 65532:65532
ENV HTTP_ADDR=:8080
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s CMD ["/throughline", "health"]
ENTRYPOINT ["/throughline"]
CMD ["serve"]
