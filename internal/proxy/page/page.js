'use strict'
// The table of /state, once a second. Texts come from servers: they are set as text.

const element = (name, text, className) => {
  const e = document.createElement(name)
  e.textContent = text ?? ''
  if (className) e.className = className
  return e
}

const seconds = (n) => {
  n = Math.ceil(n)
  if (n < 60) return `${n}s`
  if (n < 3600) return `${Math.floor(n / 60)}m${n % 60}s`
  return `${Math.floor(n / 3600)}h${Math.floor((n % 3600) / 60)}m`
}

const limitRow = (limit) => {
  const row = element('tr')
  row.append(element('td', limit.policy || '(no name)'))
  const bar = element('td')
  if (limit.quota) {
    const meter = element('meter')
    meter.max = limit.quota
    meter.low = limit.quota / 10
    meter.value = limit.remaining
    meter.setAttribute('aria-label', `${limit.policy}: remaining`)
    bar.append(meter)
  }
  row.append(bar)
  row.append(element('td', limit.quota ? `${limit.remaining} of ${limit.quota}` : `${limit.remaining}`, 'number'))
  row.append(element('td', limit.reset_seconds ? seconds(limit.reset_seconds) : '', 'number'))
  return row
}

const keySection = (key) => {
  const section = element('section')
  section.append(element('h2', key.key))
  let text = `${key.requests} requests, ${key.refused} refused by the server, ${key.refused_by_proxy} by the proxy`
  if (key.waiting) text += `. ${key.waiting} wait`
  section.append(element('p', text + '.'))
  for (const wait of key.waits ?? []) {
    let why = `${wait.resource ? wait.resource + ': ' : ''}the next request waits (${wait.reason})`
    if (wait.until) why += ` until ${new Date(wait.until).toLocaleTimeString()}`
    section.append(element('p', why + '.'))
  }
  if (key.limits?.length) {
    const table = element('table')
    const head = element('tr')
    for (const name of ['limit', '', 'remaining', 'reset']) head.append(element('th', name))
    table.append(head, ...key.limits.map(limitRow))
    section.append(table)
  }
  return section
}

const load = async () => {
  const status = document.getElementById('status')
  try {
    const { keys } = await (await fetch('state')).json()
    document.getElementById('keys').replaceChildren(...keys.map(keySection))
    const waiting = keys.reduce((sum, key) => sum + key.waiting, 0)
    status.textContent = `keys: ${keys.length}, requests that wait: ${waiting}`
  } catch {
    status.textContent = 'The proxy does not answer.'
  }
}

load()
setInterval(load, 1000)
