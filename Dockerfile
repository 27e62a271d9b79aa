# The manager on an empty image. /tmp must be writable and should be in memory (seed images are staged there before they go to
# a host): config/manager mounts an emptyDir of medium Memory.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /manager ./cmd/manager

FROM scratch
# For images behind https and health URLs behind https.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /manager /manager
ENV TMPDIR=/tmp
USER 65532:65532
ENTRYPOINT ["/manager"]
