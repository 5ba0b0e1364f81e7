package workload

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	// lineBytesMax bounds one line of a reply's stream, errorBytesMax what is kept of a reply that is an error.
	lineBytesMax  = 1 << 20
	errorBytesMax = 512
)

// answer is one reply and its times.
type answer struct {
	text      string
	ttft, e2e time.Duration
	gaps      []time.Duration
	usage     usage
}

func (a answer) gapMean() time.Duration {
	var sum time.Duration
	for _, g := range a.gaps {
		sum += g
	}
	return sum / time.Duration(len(a.gaps))
}

type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	Details          struct {
		CachedTokens int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// event is what one data line of a chat completion's stream can hold.
type event struct {
	Choices []struct {
		Delta struct {
			Content string `json:"content"`
		} `json:"delta"`
	} `json:"choices"`
	Usage *usage          `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// ask sends one request and reads its answer to the end.
func (p *player) ask(ctx context.Context, s Session, body []byte) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Session-Id", s.ID)
	if p.options.Key != "" {
		request.Header.Set("Authorization", "Bearer "+p.options.Key)
	}
	sent := time.Now()
	reply, err := p.client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(reply.Body, errorBytesMax))
		return answer{}, fmt.Errorf("status %d: %s", reply.StatusCode, bytes.TrimSpace(said))
	}
	return read(reply.Body, sent)
}

var errCutOff = errors.New("the stream ended without data: [DONE]")

// read takes in a stream of events. A token is an event with content; what arrives in one packet has a gap of its own
// all the same, since that is what a client sees.
func read(stream io.Reader, sent time.Time) (a answer, err error) {
	var text strings.Builder
	var last time.Time
	lines := bufio.NewScanner(stream)
	lines.Buffer(make([]byte, 0, 4096), lineBytesMax)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue
		}
		if data = bytes.TrimSpace(data); string(data) == "[DONE]" {
			a.text, a.e2e = text.String(), time.Since(sent)
			if last.IsZero() {
				return a, errors.New("the answer has no token")
			}
			_, err = io.Copy(io.Discard, stream) // to the end, so that the connection can be used again
			return a, err
		}
		var e event
		if err := json.Unmarshal(data, &e); err != nil {
			return a, fmt.Errorf("event %.80q: %w", data, err)
		}
		if len(e.Error) > 0 && string(e.Error) != "null" {
			return a, fmt.Errorf("error in the stream: %.200s", e.Error)
		}
		if e.Usage != nil {
			a.usage = *e.Usage
		}
		if len(e.Choices) == 0 || e.Choices[0].Delta.Content == "" {
			continue
		}
		text.WriteString(e.Choices[0].Delta.Content)
		now := time.Now()
		if last.IsZero() {
			a.ttft = now.Sub(sent)
		} else {
			a.gaps = append(a.gaps, now.Sub(last))
		}
		last = now
	}
	if err := lines.Err(); err != nil {
		return a, err
	}
	return a, errCutOff
}
