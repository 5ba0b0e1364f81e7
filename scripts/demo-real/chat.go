package main

import (
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

// system is a system prompt as applications have them: long enough for its computing to be felt.
var system = "You are the help desk of a small library. " + strings.Repeat("Answer in one short sentence. Books may be kept for three weeks and renewed twice; who returns them late pays ten cents a day. "+
	"The library is open from nine to six on weekdays and from ten to two on Saturdays. ", 8)

var questions = []string{"How long may I keep a book?", "And how often can I renew it?", "What if I am late?"}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// answered is what the router tells of a request that is over.
type answered struct {
	Worker    string  `json:"worker"`
	Hit       string  `json:"hit"`
	Prompt    int     `json:"prompt_tokens"`
	Cached    int     `json:"cached_tokens"`
	Predicted int     `json:"cached_tokens_est"`
	TTFT      float64 `json:"ttft_seconds"`
}

// play has a chat of three turns, and fails where a later one found nothing cached.
func play(ctx context.Context, data, admin string) error {
	begun := fmt.Sprintf("Reader %d asks. ", time.Now().UnixNano()) // no chat begins as another did
	chat := []message{{"system", begun + system}}
	for turn, question := range questions {
		chat = append(chat, message{"user", question})
		id := fmt.Sprintf("demo-%d-%d", time.Now().UnixNano(), turn+1)
		text, err := ask(ctx, data, id, chat)
		if err != nil {
			return fmt.Errorf("turn %d: %w", turn+1, err)
		}
		chat = append(chat, message{"assistant", text})
		a, err := told(ctx, admin, id)
		if err != nil {
			return fmt.Errorf("turn %d: %w", turn+1, err)
		}
		what := "miss"
		if a.Cached > 0 {
			what = "hit"
		}
		fmt.Printf("turn %d: %s on %s, %d of %d prompt tokens cached (%d predicted), first token after %.2f s\n        %s\n        %s\n",
			turn+1, what, a.Worker, a.Cached, a.Prompt, a.Predicted, a.TTFT, question, strings.Join(strings.Fields(text), " "))
		if turn > 0 && a.Cached == 0 {
			return fmt.Errorf("turn %d found nothing cached", turn+1)
		}
	}
	fmt.Println()
	return nil
}

// ask sends a chat as a stream and returns the answer's text.
func ask(ctx context.Context, data, id string, chat []message) (text string, err error) {
	body, err := json.Marshal(map[string]any{"model": modelName, "messages": chat, "stream": true, "max_tokens": 40, "temperature": 0})
	if err != nil {
		return "", err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+data+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("X-Request-Id", id)
	reply, err := http.DefaultClient.Do(q)
	if err != nil {
		return "", err
	}
	defer reply.Body.Close()
	all, err := io.ReadAll(io.LimitReader(reply.Body, 1<<20))
	if err != nil || reply.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s, %v: %.300s", reply.Status, err, all)
	}
	for line := range strings.Lines(string(all)) {
		event, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		var piece struct {
			Choices []struct {
				Delta message `json:"delta"`
			} `json:"choices"`
		}
		if !ok || event == "[DONE]" || json.Unmarshal([]byte(event), &piece) != nil {
			continue
		}
		for _, c := range piece.Choices {
			text += c.Delta.Content
		}
	}
	return text, nil
}

// told asks the admin port for a request that is over, which it is a moment after its answer.
func told(ctx context.Context, admin, id string) (a answered, err error) {
	const most = 50
	for range most {
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/decisions?id="+id, nil)
		if err != nil {
			return a, err
		}
		reply, err := http.DefaultClient.Do(q)
		if err != nil {
			return a, err
		}
		var found struct {
			Decisions []answered `json:"decisions"`
		}
		err = json.NewDecoder(reply.Body).Decode(&found)
		reply.Body.Close()
		if err != nil {
			return a, err
		}
		if len(found.Decisions) > 0 {
			return found.Decisions[0], nil
		}
		select {
		case <-ctx.Done():
			return a, context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return a, errors.New("the router tells nothing of it")
}
