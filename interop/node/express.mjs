// node express.mjs FORM [two|unescaped]: FORM is draft-6, draft-7, draft-8, legacy or both.
import express from 'express'
import { rateLimit } from 'express-rate-limit'
import { listen } from './listen.mjs'

const [form, how] = process.argv.slice(2)
const identifier = { two: 'burst', unescaped: 'the "burst" one' }[how]
const headers = {
  legacy: { legacyHeaders: true, standardHeaders: false },
  both: { legacyHeaders: true, standardHeaders: 'draft-8' },
}[form] ?? { legacyHeaders: false, standardHeaders: form }

const app = express()
app.use(rateLimit({ limit: 3, windowMs: 60_000, ...(identifier && { identifier }), ...headers }))
if (how === 'two') app.use(rateLimit({ limit: 1000, windowMs: 86_400_000, identifier: 'daily', ...headers }))
app.get('/', (req, res) => res.send('ok'))
listen(app)
