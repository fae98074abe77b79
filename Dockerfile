FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /interlock ./cmd/interlock

FROM gcr.io/distroless/static:nonroot
COPY --from=build /interlock /interlock
# By number, because the kubelet cannot tell that a user's name is not root's.
USER 65532:65532
ENTRYPOINT ["/interlock"]
