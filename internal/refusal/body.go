package refusal

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/warmpath/warmpath/internal/intake"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/outcome"
)

// Body shapes why a body was not taken in. length is what the client announced, less than 1 when it did not; gone says that the client left.
func Body(err error, length int64, gone bool) Answer {
	var large *intake.TooLargeError
	var spool *intake.SpoolError
	var slow *intake.SlowError
	switch {
	case errors.As(err, &large):
		got := "more"
		if length > 0 {
			got = fmt.Sprintf("%d bytes", length)
		}
		return TooLarge(got, large.BytesMax)
	case errors.As(err, &spool):
		return Answer{Status: http.StatusInsufficientStorage, Kind: llmapi.KindOverloaded, Outcome: outcome.Failed, After: time.Second, Message: err.Error() + " (settings body_spool_dir, body_spool_bytes)"}
	case errors.As(err, &slow):
		return Answer{Status: http.StatusRequestTimeout, Kind: llmapi.KindTimeout, Outcome: outcome.ClientError, Message: err.Error() + " (setting timeouts.client)"}
	case intake.NoRoom(err):
		return Answer{Status: http.StatusServiceUnavailable, Kind: llmapi.KindOverloaded, Outcome: outcome.Busy, After: time.Second, Message: err.Error()}
	case gone || errors.Is(err, io.ErrUnexpectedEOF):
		return Answer{Status: http.StatusBadRequest, Kind: llmapi.KindInvalid, Message: "the request body ended early: " + err.Error(), Outcome: outcome.Cancelled}
	}
	return Answer{Status: http.StatusBadRequest, Kind: llmapi.KindInvalid, Message: "the request body cannot be read: " + err.Error(), Outcome: outcome.ClientError}
}

// TooLarge refuses a body of so many bytes.
func TooLarge(got string, limit int64) Answer {
	return Answer{Status: http.StatusRequestEntityTooLarge, Kind: llmapi.KindTooLarge, Outcome: outcome.ClientError,
		Message: fmt.Sprintf("the request body has %s, the limit is %d bytes (setting body_bytes_max)", got, limit)}
}

// Unreadable refuses a body that only its model's workers could read, where nobody can tell which those are.
func Unreadable(encoding string) Answer {
	return Answer{Status: http.StatusUnsupportedMediaType, Kind: llmapi.KindInvalid, Param: "model", Outcome: outcome.ClientError,
		Message: fmt.Sprintf("the body is compressed with %q, which the router does not read, and there are several models; send it plain or with gzip, or add ?model=NAME to the path", encoding)}
}
