package facts

import (
	"unicode/utf8"

	"github.com/warmpath/warmpath/internal/llmapi"
)

// Excerpt is how the prompt begins, bytesMax at most: what its texts say, as they stand in the body, escapes and all. nil of 0 bytes.
func Excerpt(req *llmapi.Request, body []byte, bytesMax int) []byte {
	if bytesMax <= 0 {
		return nil
	}
	var text []byte
	for _, p := range req.Parts {
		if p.Kind != llmapi.Text && p.Kind != llmapi.Raw || p.End > len(body) || p.Start > p.End {
			continue
		}
		if len(text) > 0 {
			text = append(text, ' ')
		}
		text = append(text, body[p.Start:p.End]...)
		if len(text) >= bytesMax {
			break
		}
	}
	return Cut(text, bytesMax)
}

// Cut is the beginning of a text, bytesMax at most, and no character in halves.
func Cut(text []byte, bytesMax int) []byte {
	if len(text) <= bytesMax {
		return text
	}
	end := bytesMax
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
