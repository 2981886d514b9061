#lang racket/base
; A table of lists, made in one order and read in another.
(define size 200000)
(define table (make-hash))
(for ([number size])
  (hash-set! table (format "key ~a" number) (list number (* number number))))
(displayln (for/sum ([number size])
             (cadr (hash-ref table (format "key ~a" (modulo (* number 7919) size))))))
