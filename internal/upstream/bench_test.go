//go:build unix

package upstream

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/warmpath/warmpath/internal/header"
)

// benchWorker answers each request of requestBytes with the same bytes, as cheaply as can be.
func benchWorker(b *testing.B, bodyBytes int, answer string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReaderSize(c, 64<<10)
				for {
					for {
						line, err := r.ReadSlice('\n')
						if err != nil {
							return
						}
						if len(line) == 2 {
							break
						}
					}
					if _, err := r.Discard(bodyBytes); err != nil {
						return
					}
					io.WriteString(c, answer)
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// BenchmarkRequest compares the CPU of the whole process, worker included, per request: go test -bench Request -cpu 2.
func BenchmarkRequest(b *testing.B) {
	events := ""
	for i := range 50 {
		e := fmt.Sprintf("data: {\"id\":\"cmpl-1\",\"choices\":[{\"index\":0,\"text\":\" word%d\"}]}\n\n", i)
		events += fmt.Sprintf("%x\r\n%s\r\n", len(e), e)
	}
	const head = "HTTP/1.1 200 OK\r\ndate: Sun, 29 Nov 2026 20:00:00 GMT\r\nserver: uvicorn\r\n"
	answers := map[string]string{
		"answer": head + "content-length: 500\r\ncontent-type: application/json\r\n\r\n" + strings.Repeat("x", 500),
		"stream": head + "content-type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n" + events + "0\r\n\r\n",
	}
	for name, answer := range answers {
		for _, bodyBytes := range []int{2_000, 100_000} {
			body := bytes.Repeat([]byte("x"), bodyBytes)
			fields := header.Fields{{Name: "Content-Type", Value: "application/json"}, {Name: "Accept", Value: "*/*"}, {Name: "X-Request-Id", Value: "0123456789abcdef"}, {Name: "User-Agent", Value: "client/1.0"}}
			b.Run(fmt.Sprintf("%s/%d/lean", name, bodyBytes), func(b *testing.B) {
				client, _ := New(benchWorker(b, bodyBytes, answer), Options{})
				defer client.Close()
				measure(b, func(ctx context.Context) error {
					resp, err := client.Do(ctx, &Request{Method: "POST", Path: "/v1/completions", Header: fields, Body: body})
					if err != nil {
						return err
					}
					for {
						if _, err := resp.Body.Next(); err != nil {
							return resp.Body.Close()
						}
					}
				})
			})
			b.Run(fmt.Sprintf("%s/%d/net-http", name, bodyBytes), func(b *testing.B) {
				url := benchWorker(b, bodyBytes, answer)
				transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 256}
				defer transport.CloseIdleConnections()
				scratch := make([]byte, bufferBytes)
				measure(b, func(ctx context.Context) error {
					req, _ := http.NewRequestWithContext(ctx, "POST", url+"/v1/completions", bytes.NewReader(body))
					req.Header = http.Header{}
					fields.AddTo(req.Header)
					resp, err := transport.RoundTrip(req)
					if err != nil {
						return err
					}
					for {
						if _, err := resp.Body.Read(scratch); err != nil {
							return resp.Body.Close()
						}
					}
				})
			})
		}
	}
}

// measure runs one request after another, each with a context of its own that can end, as a server's do.
func measure(b *testing.B, do func(context.Context) error) {
	b.ReportAllocs()
	before := cpuNanoseconds()
	for b.Loop() {
		ctx, cancel := context.WithCancel(context.Background())
		if err := do(ctx); err != nil {
			b.Fatal(err)
		}
		cancel()
	}
	b.ReportMetric(float64(cpuNanoseconds()-before)/float64(b.N), "cpu-ns/op")
}

func cpuNanoseconds() int64 {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}
