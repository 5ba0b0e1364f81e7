package engine

import "net/http"

func (s *Server) routes() http.Handler { return http.NewServeMux() }
