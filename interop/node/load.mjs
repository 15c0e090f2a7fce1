// node load.mjs FORM: FORM is draft-7, draft-8 or legacy. 50 requests per 5 seconds, answers of 50 ms.
import express from 'express'
import { rateLimit } from 'express-rate-limit'
import { listen } from './listen.mjs'

const form = process.argv[2]
const headers = form === 'legacy' ? { legacyHeaders: true, standardHeaders: false } : { legacyHeaders: false, standardHeaders: form }

const app = express()
app.use(rateLimit({ limit: 50, windowMs: 5000, ...headers }))
app.use((req, res) => setTimeout(() => res.send('ok'), 50))
listen(app)
